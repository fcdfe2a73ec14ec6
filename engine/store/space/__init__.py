"""The disk space of a store, and how it shrinks: retention and compaction."""
