"""Consumers: their windows, the messages they hold, and how they are closed."""
