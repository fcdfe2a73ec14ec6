"""Who is there: connections, their ids and names, and their consumers."""
