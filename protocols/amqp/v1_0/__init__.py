"""The AMQP 1.0 adapter (ISO/IEC 19464)."""
