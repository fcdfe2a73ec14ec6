"""Octets on disk and their meaning as values; nothing here opens a file for writing or imports the engine."""
