"""What a store takes on the disk, and how it gets less: retention and compaction."""
