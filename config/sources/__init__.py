"""Readers of settings, a file per format; each returns the same model with file and line."""
