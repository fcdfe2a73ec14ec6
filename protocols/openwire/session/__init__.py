"""The work of a connection: commands in, operations on the engine, octets out."""
