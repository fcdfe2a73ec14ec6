"""Headers of STOMP for fields of AMQP alone, and addresses in headers."""

from __future__ import annotations

from typing import Final

from protocols.amqp.v1_0.wire.types.values import Value
from protocols.message_lines import AMQP_SECTIONS, MEANT

ANNOTATION_HEADER: Final = "JMS_AMQP_MA_"
RAW: Final = AMQP_SECTIONS

# x-opt-jms-reply-to -> STOMP's prefix of such a destination (a temporary one belongs to another connection).
PREFIXES: Final = {0: "/queue/", 1: "/topic/", 2: "/remote-temp-queue/", 3: "/remote-temp-topic/"}


def is_property(name: str) -> bool:
    """Return whether a header is an application property."""
    return name not in MEANT and not is_annotation(name)


def is_annotation(name: str) -> bool:
    """Return whether a header is a message annotation."""
    return name.startswith(ANNOTATION_HEADER) and name.isascii()


def stomp_address(address: str, kind: Value) -> str:
    """Return an address as STOMP clients write it."""
    for prefix, name in (("queue://", "/queue/"), ("topic://", "/topic/")):
        if address.startswith(prefix):
            return name + address.removeprefix(prefix)
    known = PREFIXES.get(kind) if isinstance(kind, int) else None
    return address if known is None or address.startswith("/") else known + address


def amqp_address(text: str) -> tuple[str, int | None]:
    """Return an address without its prefix, and its value of x-opt-jms-reply-to."""
    for prefix, kind in (("queue://", 0), ("topic://", 1), *((prefix, kind) for kind, prefix in PREFIXES.items())):
        if text.startswith(prefix):
            return text.removeprefix(prefix), kind
    return text, None
