"""The world of a simulated engine: time, workers and a store that exist only in memory."""
