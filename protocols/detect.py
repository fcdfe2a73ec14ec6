"""First octets -> which protocol.  One port serves all of them.

first octets                protocol
41 4d 51 50 + 4 octets      AMQP; the four octets name the version, and the adapter answers unsupported ones
4 octets + 01 "ActiveMQ"    OpenWire: the size of a WireFormatInfo, its type and its magic
anything else               STOMP, which answers unknown octets with an ERROR
"""

from __future__ import annotations

from typing import Final

UNDECIDED: Final = 0
STOMP: Final = 1
AMQP_1_0: Final = 2
AMQP_0_9_1: Final = 3
OPENWIRE: Final = 4

_AMQP: Final = b"AMQP"
_HEADER_BYTES: Final = 8
_OPENWIRE: Final = b"\x01ActiveMQ"
_SIZE_BYTES: Final = 4


def detect(octets: bytes) -> int:
    """Return the protocol of the first octets of a connection, UNDECIDED if they are too few."""
    if octets[:1] == b"\0":  # the size of a first frame below 16 MiB; no other protocol begins like this
        begun = octets[_SIZE_BYTES : _SIZE_BYTES + len(_OPENWIRE)]
        if begun == _OPENWIRE:
            return OPENWIRE
        return UNDECIDED if _OPENWIRE.startswith(begun) else STOMP
    if not octets.startswith(_AMQP):
        return UNDECIDED if _AMQP.startswith(octets) else STOMP
    if len(octets) < _HEADER_BYTES:
        return UNDECIDED
    # The octet of 1.0's protocol id is 0 in 0-9-1, with a revision after it; in 0-9 and 0-10 it is 1.
    return AMQP_0_9_1 if octets[4:8] == b"\x00\x00\x09\x01" else AMQP_1_0
