"""The sources of consumers' messages, a file a kind."""
