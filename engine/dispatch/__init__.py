"""Which message goes to which consumer."""
