"""Rows of Spark as messages to a gateway."""
