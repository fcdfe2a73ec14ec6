"""JMS message selectors: text to tokens to expression to closures, and the views of messages that they read."""
