"""Branches of distributed transactions: global, prepared in the log, finished by whoever may."""
