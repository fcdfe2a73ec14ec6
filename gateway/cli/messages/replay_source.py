"""Messages for ``penstock replay``: chosen from a store's log, in the form of STOMP."""

from __future__ import annotations

from collections.abc import Iterator

from engine.selector.evaluate import Selector
from engine.selector.properties import PropertyReaders
from engine.store.read.found_message import FoundMessage
from engine.values.message import AMQP_1_0, DUPLICATE_ID_NAMES, OPENWIRE, STOMP, TEXT, Message, split_annotations
from gateway.answers.message_document import found_message
from gateway.settings.conversions import CONVERTERS
from protocols.amqp.v1_0.mapping.selector_properties import AmqpPropertyReader
from protocols.openwire.mapping.selector_properties import OpenWirePropertyReader

# Headers of the first SEND only: its expiry, its transaction, its receipt, its duplicate id.
_LEFT_OUT = frozenset(
    (
        "destination",
        "receipt",
        "content-length",
        "transaction",
        "persistent",
        "expires",
        "expiration",
        "message-id",
        *DUPLICATE_ID_NAMES,
    )
)


class ReplaySource:
    """Selects messages, and counts them.

    limit: the largest number of messages, 0 for any number.  found: those selected.  not_selected: those that the
    selector does not match.  converted: messages of AMQP and OpenWire clients among those found, sent as a STOMP client
    would get them.
    """

    def __init__(self, store_id: str, selector: Selector | None, limit: int) -> None:
        self.found = 0
        self.not_selected = 0
        self.converted = 0
        self._selector = selector
        self._limit = limit
        self._form = CONVERTERS
        self._readers = PropertyReaders(f"ID:{store_id}-", f"ID:{store_id}-")
        self._readers.register(AMQP_1_0, AmqpPropertyReader())
        self._readers.register(OPENWIRE, OpenWirePropertyReader())

    def of(self, messages: Iterator[FoundMessage]) -> Iterator[tuple[dict[str, str], bytes]]:
        """Yield headers and body of the messages to send."""
        for found in messages:
            message = found_message(found)
            if self._selector is not None and not self._selector.matches(self._readers.properties(message, 1, False)):
                self.not_selected += 1
                continue
            if message.encoding != STOMP:
                message, _ = self._form.stomp_form(message)
                self.converted += 1
            self.found += 1
            yield headers_of(found, message), message.body
            if self.found == self._limit:
                return


def headers_of(found: FoundMessage, message: Message) -> dict[str, str]:
    """Return the headers of the new message: those of the old one's sender, and the origin."""
    headers: dict[str, str] = {}
    for name, value in split_annotations(message.headers):
        if name not in _LEFT_OUT:
            headers.setdefault(name, value)  # the first of two headers of one name counts
    headers["replayed-message-id"] = found.message_id
    headers["replayed-destination"] = found.destination
    headers["persistent"] = "true"
    headers["priority"] = str(found.jms_priority)
    if not message.flags & TEXT:
        headers["content-length"] = str(len(message.body))
    return headers
