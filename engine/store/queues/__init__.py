"""Consume queues: the entries of each destination and priority, and the reads that use them."""
