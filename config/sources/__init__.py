"""One file per format that settings are read from; each yields the same model with file and line."""
