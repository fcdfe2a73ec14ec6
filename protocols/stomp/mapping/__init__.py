"""Translation of frames and their headers into the engine's words, and back."""
