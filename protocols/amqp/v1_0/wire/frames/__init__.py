"""Octets <-> frames.  Source: AMQP 1.0 part 2, 2.3, and part 5, 5.3."""
