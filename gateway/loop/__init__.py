"""The thread of the engine: its turns, and what is told of them."""
