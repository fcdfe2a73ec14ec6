"""AMQP adapters: octets of a family of protocols to operations on the engine, and back."""
