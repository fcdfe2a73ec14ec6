"""Limits on what clients send, hold, make and use, and the clients that wait at them."""
