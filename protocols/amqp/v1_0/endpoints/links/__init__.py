"""Links, and the messages on them.  Source: AMQP 1.0 part 2, 2.6; part 4."""
