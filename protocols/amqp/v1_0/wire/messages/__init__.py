"""The sections and fields of a message, found by position.  Source: AMQP 1.0 part 3, 3.2."""
