"""Settings as frozen values: their meaning, their sources, and which of them applies."""
