"""The state that results from the log's records, in memory, and its snapshots."""
