"""Results for people and programs: text, JSON, a picture."""
