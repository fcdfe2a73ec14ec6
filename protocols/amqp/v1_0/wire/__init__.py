"""Octets <-> typed values, performatives and sections of messages.  Source: AMQP 1.0 parts 1 to 5."""
