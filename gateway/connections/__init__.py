"""Sockets from their accept to their close: places, TLS, the adapter of each."""
