"""Opening a store after a stop: state and consume queues are rebuilt from the log."""
