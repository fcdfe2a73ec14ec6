"""Pure translation between frames and operations on the engine."""
