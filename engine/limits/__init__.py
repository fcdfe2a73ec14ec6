"""Limits on sending, holding, making and using, and the clients that wait at them."""
