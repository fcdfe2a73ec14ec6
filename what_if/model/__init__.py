"""What is simulated: producers, consumers and the events between them and the engine."""
