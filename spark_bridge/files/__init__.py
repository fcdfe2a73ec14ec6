"""Where a lake is: a directory or an object store."""
