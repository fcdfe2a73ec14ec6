"""Octets on disk and the values that they mean: nothing here opens a file for writing, or knows an engine."""
