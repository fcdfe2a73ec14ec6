"""The configuration as the engine and its store take it."""
