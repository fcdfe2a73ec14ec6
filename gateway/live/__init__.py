"""Operators' questions and commands to the running gateway; ``gateway.web`` has their routes."""
