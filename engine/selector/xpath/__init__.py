"""XPath 1.0 on the body of a message, for selectors."""
