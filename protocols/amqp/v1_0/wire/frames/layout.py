"""Protocol headers and frames: their layout, and the frames that are no performatives.

Protocol header, 8 octets, before any frame of its layer:

    0  4  "AMQP"
    4  1  protocol id   0 AMQP, 2 TLS, 3 SASL
    5  3  version       1 0 0

Frame:

    0  4  size          of the whole frame
    4  1  data offset   in words of 4 octets, 2 or more; octets from 8 up to it are skipped
    5  1  type          0 AMQP, 1 SASL
    6  2  channel       of an AMQP frame
    .     performative (a described list), after a transfer its payload; nothing in a heartbeat

Source: AMQP 1.0 part 2, 2.2 and 2.3; part 5, 5.3.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

from protocols.amqp.v1_0.wire.composites.composite import Composite

HEADER_BYTES: Final = 8
AMQP_LAYER: Final = 0
SASL_LAYER: Final = 3
# Codes of the decoder's results that are no performatives.
PROTOCOL_HEADER: Final = -1
HEARTBEAT: Final = -2
FRAME_HEADER: Final = Struct(">IBBH")
HEARTBEAT_OCTETS: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"


class ProtocolHeader(Composite):
    """layer: AMQP_LAYER, SASL_LAYER or another number from the peer (2 is TLS)."""

    __slots__ = ("layer", "version")

    CODE: ClassVar[int] = PROTOCOL_HEADER
    NAME: ClassVar[str] = "protocol header"

    def __init__(self, layer: int, version: tuple[int, int, int]) -> None:
        self.layer = layer
        self.version = version

    def is_supported(self) -> bool:
        return self.version == (1, 0, 0) and self.layer in (AMQP_LAYER, SASL_LAYER)


class Heartbeat(Composite):
    __slots__ = ()

    CODE: ClassVar[int] = HEARTBEAT
    NAME: ClassVar[str] = "heartbeat"


def protocol_header(layer: int) -> bytes:
    return b"AMQP" + bytes((layer, 1, 0, 0))
