"""Topics, and the subscriptions that take from them."""
