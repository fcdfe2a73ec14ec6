"""The rules, in JMS words: a deterministic state machine behind one door, ``engine.broker.Broker``."""
