"""The ordered buffer of what waits in a queue, and the memory it takes."""
