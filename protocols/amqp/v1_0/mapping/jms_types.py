"""The annotation x-opt-jms-msg-type: the type of a JMS message.  Source: AMQP JMS mapping 1.0, 3.2.2."""

from __future__ import annotations

from typing import Final

MESSAGE: Final = 0
OBJECT_MESSAGE: Final = 1
MAP_MESSAGE: Final = 2
BYTES_MESSAGE: Final = 3
STREAM_MESSAGE: Final = 4
TEXT_MESSAGE: Final = 5
