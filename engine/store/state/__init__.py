"""The state that the log's records add up to, in memory, and the snapshots that hold it."""
