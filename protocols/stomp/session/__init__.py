"""One connection: frames in, operations on the engine, octets out."""
