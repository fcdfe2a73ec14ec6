"""What would have happened: recorded traffic through the engine on virtual time, with another configuration."""
