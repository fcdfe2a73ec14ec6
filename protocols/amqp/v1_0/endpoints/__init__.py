"""Connection, session and link endpoints: what a peer asks for, done in the engine.  Source: AMQP 1.0 part 2."""
