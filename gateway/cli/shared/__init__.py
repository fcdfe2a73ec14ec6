"""Parts that several commands share: their parsers, and their connections to the gateway."""
