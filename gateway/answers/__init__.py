"""Answers in words and JSON that the command line and HTTP share."""
