"""Branches of distributed transactions (XA): begun by clients, prepared in the log, then committed or rolled back."""
