"""What frames and their headers say, in the engine's words, and back."""
