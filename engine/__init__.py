"""The rules, in JMS words: a deterministic state machine; sessions call ``engine.api``."""
