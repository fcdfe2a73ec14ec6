"""What the engine asks of the world, each port as small as its users need."""
