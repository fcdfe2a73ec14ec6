"""Commands that open a stopped store to change it."""
