"""The fate of messages that are not acknowledged: redelivered, dead-lettered, expired, moved."""
