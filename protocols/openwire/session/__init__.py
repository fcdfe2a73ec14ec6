"""One connection: commands in, operations on the engine, octets out."""
