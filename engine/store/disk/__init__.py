"""The operating system as a store uses it: files, locks, syncs; a faulty one can replace each."""
