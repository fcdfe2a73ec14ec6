"""Sockets from their accept to their close: places, TLS, logins, the adapter of each."""
