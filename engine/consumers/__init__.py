"""Consumers: their windows, what they hold, how they come and go."""
