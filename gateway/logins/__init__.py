"""Users whom other servers vouch for: tokens of an issuer.  It is asked by ``gateway.connections.security``."""
