"""The operating system as a store uses it: files, locks, syncs; tests can replace each by a faulty one."""
