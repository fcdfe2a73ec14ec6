"""Operators' questions and commands to the running gateway; ``resources`` has their routes."""
