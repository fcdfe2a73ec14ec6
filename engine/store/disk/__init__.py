"""What the operating system does for a store: files, locks, syncs; all of it can be replaced by a faulty one."""
