"""The commit log: segments, appends, group commit, and how far it is durable."""
