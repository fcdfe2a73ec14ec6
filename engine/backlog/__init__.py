"""The ordered buffer of messages that wait in a queue, and its use of memory."""
