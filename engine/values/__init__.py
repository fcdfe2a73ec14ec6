"""What flows through the rules, in plain values."""
