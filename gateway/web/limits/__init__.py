"""What requests may hold and delay: memory, turns, and their share of the event loop."""
