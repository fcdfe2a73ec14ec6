"""The durable memory: one commit log, and everything that is derived from it."""
