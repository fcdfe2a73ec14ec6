"""The Delta log of a table of an export."""
