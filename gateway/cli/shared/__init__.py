"""What several commands use: their parsers, and their connections to the gateway."""
