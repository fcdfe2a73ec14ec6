"""Ports of the engine to the world, each as small as its users need."""
