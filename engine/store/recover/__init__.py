"""Opening after a stop: what the log says is made into state and consume queues again."""
