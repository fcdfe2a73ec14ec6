"""Records of the log as Arrow columns, and the one list of these columns."""
