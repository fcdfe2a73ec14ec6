"""Replays: reading the log again from a point in the past."""
