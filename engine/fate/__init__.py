"""What becomes of messages that are not acknowledged: tried again, dead, expired, moved."""
