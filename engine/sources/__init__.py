"""The sources of consumers' messages, a file per kind."""
