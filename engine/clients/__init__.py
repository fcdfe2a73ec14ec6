"""The connected clients: their ids and names, and their consumers."""
