"""The outgoing window of a session: how many transfer frames its peer takes now, and the deliveries that wait.

Source: AMQP 1.0 part 2, 2.5.6.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from engine.consumers.consumer import Consumer
from engine.values import gates
from engine.values.delivery import IN_FLIGHT, ConsumerBase, Delivery
from engine.values.message import AMQP_1_0, INGRESS
from engine.values.pieces import PIECE_BYTES
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.links.link import MASK
from protocols.amqp.v1_0.endpoints.links.outgoing_link import Carrier, OutgoingLink
from protocols.amqp.v1_0.mapping.outcomes import RELEASED_TO_OTHERS

OUTGOING_WINDOW: Final = 0x7FFFFFFF  # a constant: only the peer's incoming window limits us


class Outgoing:
    """A delivery that waits for the session's window, or of which a piece leaves in each turn.

    consumer: it was handed over to.  sent: octets of it that have been sent.
    """

    __slots__ = ("link", "delivery", "consumer", "headers", "body", "size", "sent", "delivery_id")

    def __init__(self, link: OutgoingLink, delivery: Delivery, headers: bytes, body: bytes) -> None:
        self.link = link
        self.delivery = delivery
        self.consumer = delivery.consumer
        self.headers = headers
        self.body = body
        self.size = len(headers) + len(body)
        self.sent = 0
        self.delivery_id = -1

    def take(self, size: int) -> bytes:
        """Return the next octets."""
        start = self.sent - len(self.headers)
        self.sent += size
        if start >= 0:
            return self.body[start : start + size]
        return self.headers[start:][:size] + self.body[: max(0, start + size)]


class OutgoingWindow(Carrier):
    """remote_window: transfer frames that the peer takes; next_outgoing_id: of the next frame.

    waiting: deliveries that the engine has handed over and the remote window holds back, in order.  While there are
    any, or while the window or the connection is full, the consumers of this session get nothing more.
    unsettled: the session's.  is_due: it has work at the end of this turn.
    settling: deliveries that are settled when sent.  too_large: those that exceed the limit of their link.  Both wait
    for the end of the turn, because the engine is still handing them over; output that is held back delays that end,
    and a delivery may be with another consumer by then.
    """

    __slots__ = (
        "connection",
        "out",
        "is_due",
        "unsettled",
        "next_outgoing_id",
        "next_delivery_id",
        "remote_window",
        "waiting",
        "settling",
        "too_large",
    )

    def __init__(self, connection: ConnectionEndpoint, unsettled: dict[int, Delivery], remote_window: int) -> None:
        super().__init__()
        self.connection = connection
        self.out = connection.out
        self.unsettled = unsettled
        self.is_due = False
        self.next_outgoing_id = 0
        self.next_delivery_id = 0
        self.remote_window = remote_window
        self.waiting: deque[Outgoing] | None = None  # until the first one, because most sessions never have any
        self.settling: list[tuple[Delivery, ConsumerBase | None]] = []
        self.too_large: list[tuple[Delivery, ConsumerBase | None]] = []
        self.is_output_full = self.is_shut() or connection.is_output_full

    def is_shut(self) -> bool:
        """Say whether the peer accepts no more frames of this session now."""
        return self.remote_window == 0 or bool(self.waiting)

    def output_gate(self) -> int:
        return gates.SESSION_WINDOW if self.is_shut() else gates.SOCKET_PAUSED

    def changed(self) -> None:
        """Hold the consumers of this session back or release them, by the state of its window and its connection."""
        connection = self.connection
        if connection.is_output_full or self.is_shut():
            self.is_output_full = True
        elif self.is_output_full:
            connection.engine.output_drained(self)

    def set_remote_window(self, frames: int) -> None:
        """Take the window in the peer's flow; send what waited for it."""
        self.remote_window = 0 if frames > OUTGOING_WINDOW else frames
        if self.waiting:
            self._send_waiting()
        if self.is_output_full or self.remote_window == 0:
            self.changed()

    def deliver(self, link: OutgoingLink, delivery: Delivery) -> int:
        message = delivery.message
        is_changed = delivery.is_redelivered or message.expires_ms or message.annotations or message.flags & INGRESS
        if not is_changed and message.encoding == AMQP_1_0:
            headers = message.headers
            body = message.body
        else:
            headers, body = link.sections(delivery)
        size = len(headers) + len(body)
        if size > link.size_most:
            self.too_large.append((delivery, delivery.consumer))
            self._say_at_end()
            return 0
        link.delivery_count = (link.delivery_count + 1) & MASK
        window = self.remote_window
        if window == 0 or self.waiting or size > link.payload_max:
            if self.waiting is None:
                self.waiting = deque()
            self.waiting.append(Outgoing(link, delivery, headers, body))
            self._send_waiting()
            self.changed()
            return 0  # ``_send_waiting`` counts what it sends
        delivery_id = self.next_delivery_id
        self.next_delivery_id = (delivery_id + 1) & MASK
        self.out += (link.head.encode(size, delivery_id, link.is_settled, False), headers, body)
        self.next_outgoing_id = (self.next_outgoing_id + 1) & MASK
        self.remote_window = window - 1
        if window == 1:
            self.changed()
        if link.is_settled:
            self._settle_at_end(delivery, delivery.consumer)
        else:
            delivery.key = delivery_id.to_bytes(4, "big")
            self.unsettled[delivery_id] = delivery
        return size

    def send_on(self) -> bool:
        """Send the next piece of a large delivery; say whether there was one that may be sent."""
        if not self.waiting or self.remote_window == 0:
            return False
        self._send_waiting()
        return True

    def forget(self, link: OutgoingLink, consumer: Consumer) -> None:
        unsettled = self.unsettled
        if unsettled:
            for delivery in consumer.ledger.values():
                number = int.from_bytes(delivery.key, "big")
                if unsettled.get(number) is delivery:
                    del unsettled[number]
        if self.waiting:
            self.waiting = deque(one for one in self.waiting if one.link is not link)
            self.changed()

    def close(self) -> None:
        """Forget everything and accept nothing more: the session has ended."""
        self.is_output_full = True
        self.unsettled.clear()
        self.waiting = None

    def end_turn(self) -> None:
        """Do the work that had to wait while the engine handed over."""
        self.is_due = False
        if self.settling:
            self.settle_sent()
        if self.too_large:
            self._put_back()

    def settle_sent(self) -> None:
        settling = self.settling
        self.settling = []
        for delivery, consumer in settling:
            if delivery.state == IN_FLIGHT and delivery.consumer is consumer:
                self.connection.engine.acknowledge_unconfirmed(delivery)

    # -- the steps

    def _say_at_end(self) -> None:
        self.is_due = True
        self.connection.say_at_end()

    def _settle_at_end(self, delivery: Delivery, consumer: ConsumerBase | None) -> None:
        """Settle a delivery that is settled when sent."""
        self.settling.append((delivery, consumer))
        self._say_at_end()

    def _put_back(self) -> None:
        """Release a message that was too large for its link, with the credit that it used."""
        engine = self.connection.engine
        too_large = self.too_large
        self.too_large = []
        for delivery, consumer in too_large:
            if delivery.state == IN_FLIGHT and delivery.consumer is consumer and isinstance(consumer, Consumer):
                engine.refuse(delivery, RELEASED_TO_OTHERS)
                consumer.grant(consumer.window.room() + 1)

    def _send_waiting(self) -> None:
        """Send waiting deliveries, as many as the remote window allows, and of a large one a piece in each turn."""
        waiting = self.waiting
        out = self.out
        outbox = self.connection.outbox
        while waiting and self.remote_window > 0 and outbox.size_bytes < PIECE_BYTES:
            one = waiting[0]
            link = one.link
            if one.delivery_id < 0:
                one.delivery_id = self.next_delivery_id
                self.next_delivery_id = (one.delivery_id + 1) & MASK
                if not link.is_settled:
                    one.delivery.key = one.delivery_id.to_bytes(4, "big")
                    self.unsettled[one.delivery_id] = one.delivery
            left = one.size - one.sent
            size = min(left, link.payload_max)
            out.append(link.head.encode(size, one.delivery_id, link.is_settled, size < left))
            out.append(one.take(size))
            outbox.size_bytes += size
            self.next_outgoing_id = (self.next_outgoing_id + 1) & MASK
            self.remote_window -= 1
            if size == left:
                if link.is_settled:
                    self._settle_at_end(one.delivery, one.consumer)
                waiting.popleft()
        if waiting and self.remote_window > 0:
            self.connection.hold_output()
        outbox.touch()
