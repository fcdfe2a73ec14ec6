"""AMQP words <-> words of the engine: addresses, sources, outcomes, properties, messages of other protocols."""
