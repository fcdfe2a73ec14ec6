"""JMS message selectors: text to tokens to expression to closures, and the views of a message they look at."""
