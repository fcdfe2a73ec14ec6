"""Deliveries that come in more than one transfer: their octets, until the last transfer is there (transport 2.6.14)."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.links.link import Link
from protocols.amqp.v1_0.wire.composites.delivery_states import TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import Transfer
from protocols.amqp.v1_0.wire.errors import (
    DecodeError,
    DeliveryTooSlow,
    InvalidField,
    MessageSizeExceeded,
    PartialTooMuch,
)
from protocols.amqp.v1_0.wire.messages.sections import DATA, end_of, section_code

HEADERS_BYTES_MOST: Final = 1 << 20  # of the sections before the body: they are searched and copied in one turn
SECTION_START_BYTES: Final = 64  # the descriptor of any section and its size
NEVER: Final = 1 << 62


class MultiTransfer:
    """One delivery: its first transfer, its octets so far, and the monotonic time of its beginning.

    The body is gathered apart, because a large one must not be copied again.
    headers: the sections before it.  size_bytes: of both.  size_most: the limit for that.
    """

    __slots__ = (
        "first",
        "since_ms",
        "size_most",
        "headers",
        "body",
        "size_bytes",
        "_has_body",
        "_section_at",
        "_needed",
    )

    def __init__(self, first: Transfer, since_ms: int, size_most: int) -> None:
        self.first = first
        self.since_ms = since_ms
        self.size_most = size_most
        self.headers = bytearray()
        self.body = BytesIO()
        self.size_bytes = 0
        self._has_body = False
        self._section_at = 0  # where the last section of ``headers`` begins
        self._needed = 1  # size of ``headers`` at which that section is whole, or its beginning may be

    def add(self, octets: bytes) -> None:
        self.size_bytes += len(octets)
        if self._has_body:
            self.body.write(octets)
            return
        self.headers += octets
        if len(self.headers) >= self._needed:
            self._find_body()

    def _find_body(self) -> None:
        """Pass whole sections; ``Scanner`` says later what is wrong with any."""
        headers = self.headers
        size = len(headers)
        self._needed = size + 1
        while self._section_at < size:
            at = self._section_at
            start = bytes(headers[at : at + SECTION_START_BYTES])
            try:
                code, after = section_code(start, 0)
                if code >= DATA:
                    self._has_body = True
                    self.body.write(headers[at:])
                    del headers[at:]
                    return
                end = at + end_of(start, after)
            except (DecodeError, IndexError):
                if len(start) == SECTION_START_BYTES:
                    self._needed = NEVER
                return
            if end > size:
                self._needed = end
                return
            self._section_at = end

    def check(self, transfer: Transfer) -> None:
        """Raises: InvalidField if a transfer contradicts the first one of its delivery (2.7.5)."""
        first = self.first
        if transfer.delivery_id is not None and transfer.delivery_id != first.delivery_id:
            raise InvalidField(f"a transfer of delivery {transfer.delivery_id} is inside delivery {first.delivery_id}")
        if transfer.delivery_tag is not None and transfer.delivery_tag != first.delivery_tag:
            raise InvalidField(f"the delivery-tag changes inside delivery {first.delivery_id}")
        if transfer.message_format is not None and transfer.message_format != (first.message_format or 0):
            raise InvalidField(
                f"message-format changes from {first.message_format or 0} to {transfer.message_format} inside delivery "
                f"{first.delivery_id}"
            )
        if isinstance(transfer.state, TransactionalState) and _txn_id(transfer) != _txn_id(first):
            raise InvalidField(f"the txn-id changes inside delivery {first.delivery_id}")


@dataclass(slots=True, eq=False)
class MultiTransfers:
    """Those of one connection, by link, the oldest first; ``held_bytes`` counts their octets so far."""

    connection: ConnectionEndpoint
    by_link: dict[Link, MultiTransfer] = field(default_factory=dict)
    held_bytes: int = 0

    def begin(self, link: Link, first: Transfer, size_most: int) -> MultiTransfer:
        one = self.by_link[link] = MultiTransfer(first, self.connection.now_ms, size_most)
        return one

    def add(self, one: MultiTransfer, transfer: Transfer, payload: bytes) -> None:
        """Take the fields and the octets of one of its transfers.  Raises: MessageSizeExceeded, PartialTooMuch."""
        first = one.first
        if transfer.settled is not None:
            first.settled = transfer.settled
        if transfer.state is not None:
            first.state = transfer.state
        if transfer.rcv_settle_mode is not None:
            first.rcv_settle_mode = transfer.rcv_settle_mode
        one.add(payload)
        self.held_bytes += len(payload)
        connection = self.connection
        connection.is_holding = True
        settings = connection.settings
        if one.size_bytes > one.size_most:
            raise MessageSizeExceeded(f"a message of more than {one.size_most} octets (max-message-size)")
        if len(one.headers) > HEADERS_BYTES_MOST:
            raise MessageSizeExceeded(f"a message with more than {HEADERS_BYTES_MOST} octets before its body")
        if self.held_bytes > settings.partial_bytes:
            raise PartialTooMuch(
                f"{self.held_bytes} octets of incomplete messages; "
                f"the limit of a connection is {settings.partial_bytes}"
            )

    def has_part_of(self, txn_id: bytes) -> bool:
        """Say whether a delivery in a transaction has begun and is not whole."""
        return any(_txn_id(one.first) == txn_id for one in self.by_link.values())

    def end(self, link: Link) -> None:
        """Forget the delivery of a link that has one."""
        one = self.by_link.pop(link, None)
        if one is not None:
            self.held_bytes -= one.size_bytes

    def give_up(self, now_ms: int) -> None:
        """Detach the links whose delivery was not complete in time."""
        limit_ms = self.connection.settings.delivery_time_ms
        resumed_ms = self.connection.idle.resumed_ms
        for link, one in list(self.by_link.items()):
            if now_ms - max(one.since_ms, resumed_ms) < limit_ms:
                return
            link.detach(DeliveryTooSlow(f"the transfers of a delivery took longer than {limit_ms} ms"))


def _txn_id(transfer: Transfer) -> bytes | None:
    state = transfer.state
    return state.txn_id if isinstance(state, TransactionalState) else None
