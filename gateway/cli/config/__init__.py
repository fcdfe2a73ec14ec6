"""Commands about configuration files."""
