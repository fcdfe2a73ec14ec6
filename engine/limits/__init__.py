"""What may be sent, held, made and used, and what waits at a limit."""
