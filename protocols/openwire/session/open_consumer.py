"""One consumer of a client: its ConsumerInfo, and the octets before each of its messages."""

from __future__ import annotations

from typing import Final

from engine.consumers.consumer import Consumer
from engine.sources.registry import Destinations
from protocols.openwire.mapping.destinations import wire_destination
from protocols.openwire.wire.commands import ConsumerInfo
from protocols.openwire.wire.identities import ConsumerId, Destination
from protocols.openwire.wire.writer import encode_nested

HEADS_MOST: Final = 1_000  # destinations of one consumer whose octets are kept
NO_PULL: Final = -2
_START: Final = b"\x15\0\0\0\0\0"  # a MessageDispatch, commandId 0, no response


class Head:
    """octets: of a MessageDispatch before the message's type octet.  field: the destination as a field."""

    __slots__ = ("octets", "field", "destination")

    def __init__(self, consumer_id: ConsumerId, destination: Destination) -> None:
        self.destination = destination
        self.field = encode_nested(destination)
        self.octets = _START + encode_nested(consumer_id) + self.field + b"\1"


class OpenConsumer:
    """consumer: of the engine, None for one that only takes advisories about temporary destinations.

    pull_ms: the time at which its MessagePull gives up, 0 for never; NO_PULL if none waits.
    """

    __slots__ = ("consumer_id", "info", "consumer", "pull_ms", "_heads", "_nothing")

    def __init__(self, consumer_id: ConsumerId, info: ConsumerInfo, consumer: Consumer | None) -> None:
        self.consumer_id = consumer_id
        self.info = info
        self.consumer = consumer
        self.pull_ms = NO_PULL
        self._heads: dict[int, Head] = {}
        self._nothing = b""

    def is_pulling(self) -> bool:
        """Say whether messages come on demand only."""
        return self.info.prefetch_size <= 0

    def words(self) -> str:
        """Return what the client has asked for."""
        info = self.info
        asked = [
            f"prefetch {info.prefetch_size}" if info.prefetch_size > 0 else "prefetch 0: one message for each pull"
        ]
        asked += [
            word
            for word, is_asked in (
                ("browser", info.browser),
                ("exclusive", info.exclusive),
                ("retroactive", info.retroactive),
                ("noLocal", info.no_local),
                ("optimizeAcknowledge", info.optimized_acknowledge),
                (f"priority {info.priority}", info.priority != 0),
                (
                    f"maximumPendingMessageLimit {info.maximum_pending_message_limit}",
                    info.maximum_pending_message_limit > 0,
                ),
                (f"subscription {info.subscription_name!r}", info.subscription_name is not None),
                (f"selector {(info.selector or '')[:200]!r}", bool(info.selector)),
            )
            if is_asked
        ]
        number = f"{self.consumer_id.session_id}:{self.consumer_id.value}"
        return f"consumer {number} of {str(info.destination)[:200]}: {', '.join(asked)}"

    def head(self, destination_id: int, destinations: Destinations) -> Head:
        """Return the head of a message of this destination."""
        head = self._heads.get(destination_id)
        if head is not None:
            return head
        found = destinations.by_id.get(destination_id)
        named = self.info.destination
        assert named is not None, "a consumer has a destination"
        shown = named if found is None else wire_destination(found.kind, found.name)
        head = Head(self.consumer_id, shown)
        if found is not None:  # otherwise it has ended meanwhile, and its number may be used again
            if len(self._heads) >= HEADS_MOST:
                self._heads.clear()
            self._heads[destination_id] = head
        return head

    def nothing(self) -> bytes:
        """Return the dispatch without a message: the end of a browser, or the answer to a pull that found nothing."""
        if not self._nothing:
            octets = encode_nested(self.consumer_id) + encode_nested(self.info.destination)
            body = _START + octets + b"\0" + bytes(4)  # no message, redeliveryCounter
            self._nothing = len(body).to_bytes(4, "big") + body
        return self._nothing
