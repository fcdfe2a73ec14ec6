"""Octets <-> commands: loose, uncached OpenWire without stack traces."""
