"""Decides which consumer gets which message."""
