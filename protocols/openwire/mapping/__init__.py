"""Commands and messages of OpenWire in the engine's terms, and back."""
