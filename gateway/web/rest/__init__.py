"""Messages over HTTP: the engine's clients behind requests; ``resources`` has their routes."""
