"""Many records of the log at once, as numpy columns: where they are, and what is settled, removed or lost."""
