"""The durable memory: one commit log, and everything derived from it."""
