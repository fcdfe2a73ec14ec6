"""What the records of the log come to, kept in memory, and the snapshots that hold it."""
