"""Runs of a sweep: one, several processes of this machine, or tasks of Spark."""
