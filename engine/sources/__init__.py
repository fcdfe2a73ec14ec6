"""What consumers take from, a file a kind."""
