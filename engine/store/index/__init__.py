"""The key index: from a key to the messages that have it."""
