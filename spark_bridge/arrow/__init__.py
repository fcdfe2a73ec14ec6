"""Records of the log as Arrow columns."""
