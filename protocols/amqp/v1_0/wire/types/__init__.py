"""The type system: octets <-> typed values.  Source: AMQP 1.0 part 1."""
