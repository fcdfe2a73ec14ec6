"""Consume queues: the entries of each destination and priority, and what is read by them."""
