"""The fate of messages that are not acknowledged: redelivery, dead letters, expiry, moves."""
