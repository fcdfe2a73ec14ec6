"""Settings as frozen values: what they mean, where they come from, which one applies."""
