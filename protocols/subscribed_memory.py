"""What the subscriptions of a connection take of the memory that it may hold."""

from __future__ import annotations

from typing import Final

from engine.consumers.client import Client

CONSUMER_BYTES: Final = 1024  # memory of a consumer's objects, measured
FED_TOPIC_BYTES: Final = 128  # of a topic that feeds a wildcard, measured
SELECTOR_PART: Final = 40  # octets of memory for each character of a selector, measured
SUBSCRIBED_FREE_BYTES: Final = 32 * 1024  # of all these, for each connection: fleets of ordinary ones count nothing


class SubscribedMemory:
    """selector_characters: of the selectors of all subscriptions."""

    __slots__ = ("selector_characters",)

    def __init__(self) -> None:
        self.selector_characters = 0

    def size_bytes(self, client: Client, endpoint_bytes: int) -> int:
        """Return what the consumers of ``client``, their selectors and topics take, beyond what is free.

        endpoint_bytes: of its subscriptions or sessions, without their consumers and links.
        """
        size_bytes = len(client.consumers) * CONSUMER_BYTES + client.fed_topics * FED_TOPIC_BYTES + endpoint_bytes
        return max(0, size_bytes + self.selector_characters * SELECTOR_PART - SUBSCRIBED_FREE_BYTES)
