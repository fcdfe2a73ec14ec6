"""What happened: the messages, attempts and consumers of an export or a store."""
