"""Optional features of the brokers with which we are compatible."""
