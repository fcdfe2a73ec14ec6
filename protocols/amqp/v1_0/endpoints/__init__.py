"""Connection, session and link endpoints: they do in the engine what a peer asks for.  Source: AMQP 1.0 part 2."""
