"""Users whom other servers vouch for: tokens of an issuer, passwords of a directory.

It is asked by ``gateway.connections.security``.
"""
