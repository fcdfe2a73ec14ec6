"""Who may log in: users of the configuration, of an issuer's tokens, of a directory; ``login_check`` asks them all."""
