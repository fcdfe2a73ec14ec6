"""Composites: performatives, states of deliveries, termini and transactions.  Source: AMQP 1.0 parts 2 to 5."""
