"""OpenWire, the protocol of ActiveMQ's own clients."""
