"""Connections of HTTP, and the sockets and the log of their requests."""
