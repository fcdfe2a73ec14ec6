"""A store as a reader sees it, also while a gateway writes to it: no lock is taken and nothing is changed."""
