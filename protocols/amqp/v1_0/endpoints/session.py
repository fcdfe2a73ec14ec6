"""Sessions: windows, handles, delivery-ids, dispositions.  Source: AMQP 1.0 part 2, 2.5 and 2.6."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from engine.consumers.consumer import Consumer
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.errors import EngineError, PenstockError
from engine.values.message import AMQP_1_0, INGRESS
from protocols.amqp.v1_0.endpoints.attach import attach
from protocols.amqp.v1_0.endpoints.confirmations import Answered
from protocols.amqp.v1_0.endpoints.incoming_link import IncomingLink
from protocols.amqp.v1_0.endpoints.link import MASK, Link
from protocols.amqp.v1_0.endpoints.outgoing_link import Outgoing, OutgoingLink
from protocols.amqp.v1_0.mapping.outcomes import is_terminal, refusal_of
from protocols.amqp.v1_0.wire.delivery_states import ACCEPTED, Accepted, State, TransactionalState
from protocols.amqp.v1_0.wire.errors import (
    AmqpError,
    FramingError,
    HandleInUse,
    InvalidFlow,
    LinkError,
    UnattachedHandle,
    WindowViolation,
    error_of,
)
from protocols.amqp.v1_0.wire.frame_encoder import (
    encode_accepted,
    encode_disposition,
    encode_link_flow,
    encode_session_flow,
)
from protocols.amqp.v1_0.wire.frame_size import fitted_frame
from protocols.amqp.v1_0.wire.performatives import Attach, Begin, Detach, Disposition, End, Flow, Transfer

if TYPE_CHECKING:
    from protocols.amqp.v1_0.endpoints.connection import AmqpConnection

OUTGOING_WINDOW: Final = 0x7FFFFFFF  # a constant: what limits us is the peer's incoming window


class AmqpSession(Answered):
    """channel: ours.  links: by the peer's handles.  handles: ours in use.

    next_outgoing_id, remote_window: frames that we send; next_incoming_id, incoming_window: frames that we take.
    unsettled: what the peer has received and not settled, by delivery-id, over all its links.
    accepted_now, accepted_logged: delivery-ids of this turn to be accepted at its end, or once durable.
    waiting: deliveries that have begun and the remote window holds back, in order.  is_shut: it does, or takes nothing;
    the consumers of this session get nothing more until it opens.
    is_ending: we have said end, and drop what comes until the peer has.
    """

    __slots__ = (
        "connection",
        "channel",
        "peer_channel",
        "peer_handle_max",
        "links",
        "handles",
        "next_outgoing_id",
        "remote_window",
        "next_incoming_id",
        "incoming_window",
        "window_size",
        "next_delivery_id",
        "unsettled",
        "accepted_now",
        "accepted_logged",
        "states_now",
        "states_logged",
        "waiting",
        "low_links",
        "is_shut",
        "draining",
        "is_ending",
    )

    def __init__(self, connection: AmqpConnection, channel: int, peer_channel: int, begin: Begin) -> None:
        super().__init__()
        self.connection = connection
        self.channel = channel
        self.peer_channel = peer_channel
        self.peer_handle_max = MASK if begin.handle_max is None else begin.handle_max
        self.links: dict[int, Link] = {}
        self.handles: dict[int, Link] = {}
        self.next_outgoing_id = 0
        self.remote_window = begin.incoming_window
        self.next_incoming_id = begin.next_outgoing_id
        self.window_size = connection.settings.incoming_window
        self.incoming_window = self.window_size
        self.next_delivery_id = 0
        self.unsettled: dict[int, Delivery] = {}
        self.accepted_now: list[int] = []
        self.accepted_logged: list[int] = []
        self.states_now: list[bytes] = []
        self.states_logged: list[bytes] = []
        self.waiting: deque[Outgoing] = deque()
        self.low_links: list[IncomingLink] = []
        self.is_shut = self.remote_window == 0
        self.draining: list[OutgoingLink] = []
        self.is_ending = False

    def begin_answer(self) -> Begin:
        return Begin(
            self.peer_channel,
            self.next_outgoing_id,
            self.incoming_window,
            OUTGOING_WINDOW,
            self.connection.settings.handle_max,
        )

    # -- frames of the peer

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Raises: WindowViolation, UnattachedHandle."""
        self.next_incoming_id = (self.next_incoming_id + 1) & MASK
        self.incoming_window -= 1
        if self.incoming_window < 0:
            raise WindowViolation(f"a transfer beyond the incoming window of {self.window_size} frames")
        link = self.links.get(transfer.handle)
        if link is None:
            raise self._unattached("a transfer on", transfer.handle)
        if link.is_detaching:
            return
        try:
            link.take(transfer, payload)
        except (LinkError, EngineError) as error:
            link.detach(error)

    def disposition(self, disposition: Disposition) -> None:
        first = disposition.first
        last = disposition.last
        if not disposition.role:
            # The peer settles what it sent: where it waits for that (second mode), we have forgotten it already.
            return
        if last is None or last == first:
            delivery = self.unsettled.get(first)
            if delivery is None:
                return
            if disposition.state is ACCEPTED and disposition.settled and delivery.state == IN_FLIGHT:  # nearly all
                del self.unsettled[first]
                self.connection.broker.acknowledge_unconfirmed(delivery)
            else:
                self._dispose(first, delivery, disposition)
            return
        if not disposition.settled and not is_terminal(disposition.state) and not _is_of_transaction(disposition):
            return  # it says how far the peer has come, and changes nothing
        count = ((last - first) & MASK) + 1
        if count <= 2 * len(self.unsettled):
            numbers = [(first + step) & MASK for step in range(count)]
        else:  # a range may be hostile: never walk what is not there
            numbers = [number for number in self.unsettled if ((number - first) & MASK) < count]
        for number in numbers:
            delivery = self.unsettled.get(number)
            if delivery is not None:
                self._dispose(number, delivery, disposition)

    def flow(self, flow: Flow) -> None:
        """Raises: UnattachedHandle, InvalidFlow."""
        seen = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        window = (seen + flow.incoming_window - self.next_outgoing_id) & MASK
        self.remote_window = 0 if window > OUTGOING_WINDOW else window
        if self.waiting:
            self._send_waiting()
        self._window_changed(None)
        if flow.handle is not None:
            link = self.links.get(flow.handle)
            if link is None:
                raise self._unattached("a flow for", flow.handle)
            if not link.is_detaching:
                try:
                    link.flow(flow)
                except LinkError as error:
                    link.detach(error)
            return
        if flow.delivery_count is not None or flow.link_credit is not None or flow.available is not None or flow.drain:
            raise InvalidFlow("a flow without a handle has delivery-count, link-credit, available or drain")
        if flow.echo:
            self._send_window()

    def attach(self, frame: Attach) -> None:
        """Raises: HandleInUse, FramingError."""
        if frame.handle in self.links:
            raise HandleInUse(f"handle {frame.handle} is attached already, to link {frame.name[:200]!r}")
        if frame.handle > self.connection.settings.handle_max:
            raise self._unattached("an attach with", frame.handle)
        handle = frame.handle  # the same both ways, unless the peer does not take it
        if handle > self.peer_handle_max or handle in self.handles:
            handle = 0
            while handle in self.handles:
                handle += 1
            if handle > self.peer_handle_max:
                raise HandleInUse(f"all handles up to the peer's handle-max {self.peer_handle_max} are in use")
        attach(self, frame, handle)

    def add_link(self, link: Link) -> None:
        self.links[link.peer_handle] = link
        self.connection.count_name(link.name_bytes())
        self.handles[link.handle] = link

    def detach(self, frame: Detach) -> None:
        """Raises: UnattachedHandle."""
        link = self.links.pop(frame.handle, None)
        if link is None:
            raise self._unattached("a detach for", frame.handle)
        self.handles.pop(link.handle, None)
        self.connection.count_name(-link.name_bytes())
        if link.is_detaching:
            return
        answer = Detach(link.handle, True if frame.closed else None)
        try:
            link.close(False, bool(frame.closed))
        except EngineError as error:
            answer = Detach(link.handle, True, error_of(error))
        self.connection.send_fitted(self.channel, answer)

    def close(self) -> list[Consumer]:
        """Let go of all links; return the consumers that they had, which the caller closes."""
        consumers: list[Consumer] = []
        for link in self.links.values():
            self.connection.count_name(-link.name_bytes())
            if isinstance(link, OutgoingLink) and link.consumer is not None:
                consumers.append(link.consumer)
            if not link.is_detaching:
                link.end()
        self.unsettled.clear()
        self.links.clear()
        self.handles.clear()
        self.waiting.clear()
        self.draining.clear()
        return consumers

    def end(self, error: PenstockError) -> None:
        """End the session because of an error."""
        self.connection.broker.leave(self.close())
        self.is_ending = True
        self.connection.end_session(self, End(error_of(error)))

    # -- what the engine hands over

    def deliver(self, link: OutgoingLink, delivery: Delivery) -> int:
        """Send one message; return its octets."""
        message = delivery.message
        is_changed = delivery.is_redelivered or message.expires_ms or message.annotations or message.flags & INGRESS
        if not is_changed and message.encoding == AMQP_1_0:
            headers = message.headers
            body = message.body
        else:
            headers, body = link.sections(delivery)
        size = len(headers) + len(body)
        if size > link.size_most:
            self.connection.leave_to_others(delivery)
            return 0
        link.delivery_count = (link.delivery_count + 1) & MASK
        if self.remote_window == 0 or self.waiting or size > link.payload_max:
            self.waiting.append(Outgoing(link, delivery, headers + body))
            self._send_waiting()
            self._window_changed(link)
            return size
        delivery_id = self.next_delivery_id
        self.next_delivery_id = (delivery_id + 1) & MASK
        out = self.connection.out
        out.append(link.head.encode(size, delivery_id, link.is_settled, False))
        out.append(headers)
        out.append(body)
        self.next_outgoing_id = (self.next_outgoing_id + 1) & MASK
        self.remote_window -= 1
        if self.remote_window == 0:
            self._window_changed(link)
        if link.is_settled:
            self.connection.settle_at_end(delivery)
        else:
            delivery.key = delivery_id.to_bytes(4, "big")
            self.unsettled[delivery_id] = delivery
        return size

    # -- what leaves at the end of a turn

    def end_turn(self, out: list[bytes]) -> bytes:
        """Append what may leave at once to ``out``; return what must wait until this turn is durable."""
        if self.accepted_now:
            out.append(_accepted(self.channel, self.accepted_now))
            self.accepted_now.clear()
        if self.states_now:
            out.extend(self.states_now)
            self.states_now.clear()
        if self.low_links:
            links = self.low_links
            self.low_links = []
            for link in links:
                link.grant()
        if self.draining:
            self.draining = [link for link in self.draining if not link.finish_drain()]
        if self.incoming_window <= self.window_size // 2:
            self._send_window()
        octets = b""
        if self.accepted_logged:
            octets = _accepted(self.channel, self.accepted_logged)
            self.accepted_logged.clear()
        if self.states_logged:
            octets += b"".join(self.states_logged)
            self.states_logged.clear()
        return octets

    def confirm_state(self, delivery_id: int, state: State, is_settled: bool, is_logged: bool) -> None:
        """Tell the outcome of a delivery of the peer's at the end of this turn, or once it is durable."""
        octets = encode_disposition(self.channel, True, delivery_id, delivery_id, is_settled, state)
        frame_most = self.connection.peer_frame_size
        if len(octets) > frame_most:
            octets = fitted_frame(self.channel, Disposition(True, delivery_id, None, is_settled, state), frame_most)
        (self.states_logged if is_logged else self.states_now).append(octets)
        self.connection.touch()

    def settle_logged(self, delivery_id: int, state: State) -> None:
        """Answer an outcome that the peer has not settled, once it is durable (receiver settles second)."""
        self.states_logged.append(encode_disposition(self.channel, False, delivery_id, delivery_id, True, state))
        self.connection.touch()

    def list_draining(self, link: OutgoingLink) -> None:
        if link not in self.draining:
            self.draining.append(link)
        self.connection.touch()

    def send_link_flow(self, link: Link, credit: int, available: int, is_drained: bool) -> None:
        self.incoming_window = self.window_size
        octets = encode_link_flow(
            self.channel,
            self.next_incoming_id,
            self.incoming_window,
            self.next_outgoing_id,
            OUTGOING_WINDOW,
            link.handle,
            link.delivery_count,
            credit,
            available,
            is_drained,
        )
        if link.is_behind:
            self.connection.send(octets)
        else:
            self.connection.send_at_once(octets)

    def forget(self, link: OutgoingLink, consumer: Consumer) -> None:
        """Forget what a link that goes has sent to its consumer, and what it was going to send."""
        unsettled = self.unsettled
        if unsettled:
            for delivery in consumer.ledger.values():
                number = int.from_bytes(delivery.key, "big")
                if unsettled.get(number) is delivery:
                    del unsettled[number]
        if self.waiting:
            self.waiting = deque(one for one in self.waiting if one.link is not link)
            self._window_changed(None)

    # -- the steps

    def _dispose(self, number: int, delivery: Delivery, disposition: Disposition) -> None:
        """Apply the peer's outcome to one delivery that it received."""
        state = disposition.state
        is_settled = bool(disposition.settled)
        connection = self.connection
        if delivery.state != IN_FLIGHT:  # part of a transaction: settling it now says nothing new
            if is_settled:
                del self.unsettled[number]
            return
        if isinstance(state, Accepted):
            del self.unsettled[number]
            if is_settled:
                connection.broker.acknowledge_unconfirmed(delivery)
            else:
                connection.broker.acknowledge(delivery)
                self.settle_logged(number, ACCEPTED)
            return
        if isinstance(state, TransactionalState):
            connection.transactions.dispose(self, number, delivery, state, is_settled)
            return
        if not is_settled and not is_terminal(state):
            return
        consumer = delivery.consumer
        assert isinstance(consumer, Consumer), "an unsettled delivery is with a consumer"
        link = consumer.adapter
        assert isinstance(link, OutgoingLink), "a consumer of this connection has a link"
        del self.unsettled[number]
        outcome = state if is_terminal(state) else link.default_outcome
        refusal = refusal_of(outcome, delivery)
        if refusal is None:
            connection.broker.acknowledge(delivery)
        else:
            connection.broker.refuse(delivery, refusal)
        if not is_settled and state is not None:
            self.settle_logged(number, state)

    def _send_waiting(self) -> None:
        """Send what waited, as far as the remote window goes."""
        waiting = self.waiting
        out = self.connection.out
        while waiting and self.remote_window > 0:
            one = waiting[0]
            link = one.link
            if one.delivery_id < 0:
                one.delivery_id = self.next_delivery_id
                self.next_delivery_id = (one.delivery_id + 1) & MASK
                if link.is_settled:
                    self.connection.settle_at_end(one.delivery)
                else:
                    one.delivery.key = one.delivery_id.to_bytes(4, "big")
                    self.unsettled[one.delivery_id] = one.delivery
            left = len(one.payload) - one.sent
            size = min(left, link.payload_max)
            out.append(link.head.encode(size, one.delivery_id, link.is_settled, size < left))
            out.append(one.payload[one.sent : one.sent + size])
            one.sent += size
            self.next_outgoing_id = (self.next_outgoing_id + 1) & MASK
            self.remote_window -= 1
            if size == left:
                waiting.popleft()
        self.connection.touch()

    def _window_changed(self, sending: OutgoingLink | None) -> None:
        """Hold the consumers of this session while its window is shut.

        sending: the one to which a message is being delivered, None for none.
        """
        is_shut = self.remote_window == 0 or bool(self.waiting)
        if is_shut == self.is_shut:
            return
        self.is_shut = is_shut
        broker = self.connection.broker
        for link in self.links.values():
            if isinstance(link, OutgoingLink) and link.consumer is not None and not link.is_behind:
                if is_shut:
                    broker.hold(link.consumer, link is sending)
                else:
                    broker.unhold(link.consumer)

    def _unattached(self, what: str, handle: int) -> AmqpError:
        """Return what is wrong with a handle that has no link; one that we do not take ends the connection (2.7.2)."""
        handle_max = self.connection.settings.handle_max
        if handle > handle_max:
            return FramingError(f"{what} handle {handle}; allowed is up to {handle_max}")
        return UnattachedHandle(f"{what} handle {handle}, to which no link is attached")

    def _send_window(self) -> None:
        self.incoming_window = self.window_size
        octets = encode_session_flow(
            self.channel, self.next_incoming_id, self.incoming_window, self.next_outgoing_id, OUTGOING_WINDOW
        )
        if self.is_behind:
            self.connection.send(octets)
        else:
            self.connection.send_at_once(octets)


def _is_of_transaction(disposition: Disposition) -> bool:
    return isinstance(disposition.state, TransactionalState)


def _accepted(channel: int, numbers: list[int]) -> bytes:
    """Return dispositions for ``numbers``, ranges joined."""
    first = last = numbers[0]
    if len(numbers) == 1:
        return encode_accepted(channel, True, first, first)
    octets: list[bytes] = []
    for number in numbers[1:]:
        if number == ((last + 1) & MASK):
            last = number
            continue
        octets.append(encode_accepted(channel, True, first, last))
        first = last = number
    octets.append(encode_accepted(channel, True, first, last))
    return b"".join(octets)
