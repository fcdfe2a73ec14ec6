"""Plain values that flow through the rules."""
