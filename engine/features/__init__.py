"""Optional behaviour of the brokers we are compatible with."""
