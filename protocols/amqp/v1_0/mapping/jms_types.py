"""Types of JMS in AMQP: of a message, by the annotation x-opt-jms-msg-type, and of its group sequence.

Source: AMQP JMS mapping 1.0, 3.2.2 and 3.2.1.
"""

from __future__ import annotations

from typing import Final

from protocols.amqp.v1_0.wire.types.values import UInt, Value

MESSAGE: Final = 0
OBJECT_MESSAGE: Final = 1
MAP_MESSAGE: Final = 2
BYTES_MESSAGE: Final = 3
STREAM_MESSAGE: Final = 4
TEXT_MESSAGE: Final = 5

_INT_VALUES: Final = 1 << 32


def group_sequence_of(value: Value) -> int | None:
    """Return the JMSXGroupSeq of a group-sequence: the int of Java with the same bits, so -1 ends a group."""
    if not isinstance(value, int):
        return None
    return int(value) if value < _INT_VALUES // 2 else int(value) - _INT_VALUES


def group_sequence_for(text: str | None) -> UInt | None:
    """Return the group-sequence of a JMSXGroupSeq, None for what is none."""
    digits = "" if text is None else text.removeprefix("-")
    if text is None or not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        return None
    number = int(text)
    return UInt(number % _INT_VALUES) if -_INT_VALUES // 2 <= number < _INT_VALUES else None
