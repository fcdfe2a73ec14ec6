"""Reads a store, even while a gateway writes to it, without a lock and without changes."""
