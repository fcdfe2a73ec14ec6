"""Surroundings of the engine in its process: clock, threads, descriptors, counters, and its end."""
