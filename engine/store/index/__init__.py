"""The key index: it finds the messages with a key."""
