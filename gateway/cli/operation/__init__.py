"""Commands that ask or change a running gateway."""
