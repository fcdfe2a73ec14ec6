"""What surrounds the engine in its process: clock, threads, descriptors, counters, and how it ends."""
