"""The HTTP listener: health, metrics and the JSON behind ``stat``."""
