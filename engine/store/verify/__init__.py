"""Verifies a store: each file, record, reference and entry is checked."""
