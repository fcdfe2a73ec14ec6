"""Whether a store is sound: each file, record, reference and entry is looked at."""
