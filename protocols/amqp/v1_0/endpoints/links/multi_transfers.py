"""Deliveries that come in more than one transfer: their octets, until the last transfer is there (transport 2.6.14)."""

from __future__ import annotations

from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.links.link import Link
from protocols.amqp.v1_0.wire.delivery_states import TransactionalState
from protocols.amqp.v1_0.wire.errors import DeliveryTooSlow, InvalidField, MessageSizeExceeded, PartialTooMuch
from protocols.amqp.v1_0.wire.performatives import Transfer


class MultiTransfer:
    """One delivery: its first transfer, its octets so far, and the monotonic time of its beginning."""

    __slots__ = ("first", "octets", "since_ms")

    def __init__(self, first: Transfer, since_ms: int) -> None:
        self.first = first
        self.octets = bytearray()
        self.since_ms = since_ms

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


class MultiTransfers:
    """Those of one connection, by link, the oldest first; ``held_bytes`` counts their octets so far."""

    __slots__ = ("connection", "by_link", "held_bytes")

    def __init__(self, connection: ConnectionEndpoint) -> None:
        self.connection = connection
        self.by_link: dict[Link, MultiTransfer] = {}
        self.held_bytes = 0

    def begin(self, link: Link, first: Transfer) -> MultiTransfer:
        one = self.by_link[link] = MultiTransfer(first, self.connection.now_ms)
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
        one.octets += payload
        self.held_bytes += len(payload)
        connection = self.connection
        connection.is_holding = True
        settings = connection.settings
        if len(one.octets) > settings.body_bytes:
            raise MessageSizeExceeded(f"a message of more than {settings.body_bytes} octets (max-message-size)")
        if self.held_bytes > settings.partial_bytes:
            raise PartialTooMuch(
                f"{self.held_bytes} octets of incomplete messages; "
                f"the limit of a connection is {settings.partial_bytes}"
            )

    def has_part_of(self, txn_id: bytes) -> bool:
        """Say whether a delivery in a transaction has begun and is not whole."""
        return any(_txn_id(one.first) == txn_id for one in self.by_link.values())

    def end(self, link: Link) -> bytes:
        """Forget the delivery of a link that has one; return its octets."""
        one = self.by_link.pop(link, None)
        if one is None:
            return b""
        self.held_bytes -= len(one.octets)
        return bytes(one.octets)

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
