"""Sessions: incoming window, handles, dispositions.  Source: AMQP 1.0 part 2, 2.5 and 2.6."""

from __future__ import annotations

from engine.consumers.consumer import Consumer
from engine.values.delivery import IN_FLIGHT
from engine.values.errors import EngineError
from protocols.amqp.v1_0.endpoints.attach import LinkFactory
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.dispositions import Dispositions
from protocols.amqp.v1_0.endpoints.links.link import MASK, Link, SessionEndpoint
from protocols.amqp.v1_0.endpoints.links.outgoing_link import OutgoingLink
from protocols.amqp.v1_0.endpoints.outgoing_window import OUTGOING_WINDOW, OutgoingWindow
from protocols.amqp.v1_0.endpoints.states import (
    BEGIN_RCVD,
    DETACHED,
    LEFT,
    LINK,
    LINK_DISCARDING,
    SESSION,
    UNMAPPED,
    advance,
)
from protocols.amqp.v1_0.wire.composites.composite import error_of
from protocols.amqp.v1_0.wire.composites.delivery_states import ACCEPTED, State
from protocols.amqp.v1_0.wire.composites.performatives import BEGIN, Attach, Begin, Detach, Disposition, Flow, Transfer
from protocols.amqp.v1_0.wire.errors import (
    AmqpError,
    FramingError,
    HandleInUse,
    InvalidFlow,
    LinkError,
    UnattachedHandle,
    WindowViolation,
)
from protocols.amqp.v1_0.wire.frames.frame_encoder import (
    encode_accepted_ranges,
    encode_disposition,
    encode_link_flow,
    encode_session_flow,
    encode_settled_ranges,
)
from protocols.amqp.v1_0.wire.frames.frame_size import fitted_frame


class AmqpSession(SessionEndpoint):
    """links: attached, by the peer's handles; discarding: links that we have ended, until the peer detaches them.

    handles: ours in use.  outgoing: sends the deliveries of the links.
    factory: attaches links; dispositions: settles deliveries; both of the connection.
    next_incoming_id, incoming_window: frames that we accept; the peer gets a new window at ``window_low``.
    states_now, states_logged: dispositions to be sent at the end of this turn, or once durable.
    draining: links whose peer waits for the end of a drain.
    """

    __slots__ = (
        "peer_channel",
        "peer_handle_max",
        "links",
        "discarding",
        "handles",
        "outgoing",
        "factory",
        "dispositions",
        "next_incoming_id",
        "incoming_window",
        "window_size",
        "window_low",
        "states_now",
        "states_logged",
        "draining",
    )

    def __init__(
        self,
        connection: ConnectionEndpoint,
        factory: LinkFactory,
        dispositions: Dispositions,
        channel: int,
        peer_channel: int,
        begin: Begin,
    ) -> None:
        super().__init__(advance(SESSION, UNMAPPED, BEGIN), connection, channel)
        self.peer_channel = peer_channel
        self.peer_handle_max = MASK if begin.handle_max is None else begin.handle_max
        self.links: dict[int, Link] = {}
        self.discarding: dict[int, Link] = {}
        self.handles: dict[int, Link] = {}
        self.outgoing = OutgoingWindow(connection, self.unsettled, begin.incoming_window)
        self.factory = factory
        self.dispositions = dispositions
        self.next_incoming_id = begin.next_outgoing_id
        self.window_size = connection.settings.incoming_window
        self.window_low = self.window_size // 2
        self.incoming_window = self.window_size
        self.states_now: list[bytes] = []
        self.states_logged: list[bytes] = []
        self.draining: dict[Link, None] = {}

    def sent(self) -> None:
        self.state = advance(SESSION, self.state, LEFT)

    def begin_answer(self) -> Begin:
        return Begin(
            self.peer_channel,
            self.outgoing.next_outgoing_id,
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
            self._require_known(transfer.CODE, transfer.handle, "a transfer on")
            return
        try:
            link.take(transfer, payload)
        except (LinkError, EngineError) as error:
            link.detach(error)

    def disposition(self, disposition: Disposition) -> None:
        first = disposition.first
        last = disposition.last
        if not disposition.role:
            # The peer settles its own deliveries: with second mode we have forgotten them already.
            return
        if last is None or last == first:
            delivery = self.unsettled.get(first)
            if delivery is None:
                return
            if disposition.state is ACCEPTED and disposition.settled and delivery.state == IN_FLIGHT:  # nearly all
                del self.unsettled[first]
                self.connection.accepted.append(delivery)
            else:
                self.connection.settle_accepted()
                self.dispositions.take(self, first, delivery, disposition)
        else:
            self.connection.settle_accepted()
            self.dispositions.take_range(self, first, last, disposition)

    def flow(self, flow: Flow) -> None:
        """Raises: UnattachedHandle, InvalidFlow."""
        seen = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        outgoing = self.outgoing
        outgoing.set_remote_window((seen + flow.incoming_window - outgoing.next_outgoing_id) & MASK)
        if flow.handle is not None:
            link = self.links.get(flow.handle)
            if link is None:
                self._require_known(flow.CODE, flow.handle, "a flow for")
                return
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
        known = self.links.get(frame.handle) or self.discarding.get(frame.handle)
        if (DETACHED if known is None else known.state, frame.CODE) not in LINK:
            raise HandleInUse(f"handle {frame.handle} is attached already, to link {frame.name[:200]!r}")
        if frame.handle > self.connection.settings.handle_max:
            raise self._unattached("an attach with", frame.handle)
        handle = frame.handle  # the same number in both directions, unless the peer's handle-max is lower
        if handle > self.peer_handle_max or handle in self.handles:
            handle = 0
            while handle in self.handles:
                handle += 1
            if handle > self.peer_handle_max:
                raise HandleInUse(f"all handles up to the peer's handle-max {self.peer_handle_max} are in use")
        self.factory.attach(self, self.outgoing, frame, handle)

    def add_link(self, link: Link) -> None:
        self.links[link.peer_handle] = link
        self.handles[link.handle] = link
        self.connection.count_link(1, link.name_bytes(), link.selector_characters)

    def discard(self, link: Link) -> None:
        if self.links.pop(link.peer_handle, None) is not None:
            self.discarding[link.peer_handle] = link

    def detach(self, frame: Detach) -> None:
        """Raises: UnattachedHandle."""
        link = self.links.pop(frame.handle, None)
        is_answered = link is None
        if link is None:
            link = self.discarding.pop(frame.handle, None)
        if link is None:
            raise self._unattached("a detach for", frame.handle)
        link.state = advance(LINK, link.state, frame.CODE)
        self.handles.pop(link.handle, None)
        self.connection.count_link(-1, -link.name_bytes(), -link.selector_characters)
        if is_answered:
            return
        answer = Detach(link.handle, True if frame.closed else None)
        try:
            link.close(False, bool(frame.closed))
        except EngineError as error:
            answer = Detach(link.handle, True, error_of(error))
        self.connection.send_fitted(self.channel, answer)

    def close(self, is_lost: bool) -> list[Consumer]:
        """Drop all links; return their consumers, which the caller closes.  is_lost: waiting output does not leave."""
        if not is_lost:
            self.outgoing.settle_sent()
        consumers: list[Consumer] = []
        for link in [*self.links.values(), *self.discarding.values()]:
            self.connection.count_link(-1, -link.name_bytes(), -link.selector_characters)
            if isinstance(link, OutgoingLink) and link.consumer is not None:
                consumers.append(link.consumer)
            if not link.is_gone():
                link.end()
            link.state = DETACHED
        self.outgoing.close()
        self.links.clear()
        self.discarding.clear()
        self.handles.clear()
        self.draining.clear()
        return consumers

    # -- frames at the end of a turn

    def end_turn(self, out: list[bytes]) -> bytes:
        """Append the frames that may leave at once to ``out``; return those that wait until this turn is durable."""
        if self.accepted_now:
            out.append(encode_accepted_ranges(self.channel, self.accepted_now))
            self.accepted_now.clear()
        if self.is_due or self.outgoing.is_due:
            self._end_turn(out)
        if self.incoming_window <= self.window_low:
            self._send_window()
        octets = b""
        if self.accepted_logged:
            octets = encode_accepted_ranges(self.channel, self.accepted_logged)
            self.accepted_logged.clear()
        if self.states_logged:
            octets += b"".join(self.states_logged)
            self.states_logged.clear()
        return octets

    def _end_turn(self, out: list[bytes]) -> None:
        """Do the work that few turns have."""
        self.is_due = False
        self.outgoing.end_turn()
        if self.states_now:
            out.extend(self.states_now)
            self.states_now.clear()
        links = self.low_links
        self.low_links = []
        for link in links:
            link.grant()
        if self.draining:
            self.draining = {link: None for link in self.draining if not link.finish_drain()}
            if self.draining:
                self.is_due = self.connection.is_due = True

    def confirm_state(self, delivery_id: int, state: State, is_settled: bool, is_logged: bool) -> None:
        octets = encode_disposition(self.channel, True, delivery_id, delivery_id, is_settled, state)
        frame_most = self.connection.peer_frame_size
        if len(octets) > frame_most:
            octets = fitted_frame(self.channel, Disposition(True, delivery_id, None, is_settled, state), frame_most)
        (self.states_logged if is_logged else self.states_now).append(octets)
        self._say_at_end()

    def settle_logged(self, delivery_ids: list[int], state: State) -> None:
        self.states_logged.append(encode_settled_ranges(self.channel, delivery_ids, state))
        self._say_at_end()

    def list_draining(self, link: Link) -> None:
        self.draining[link] = None
        self._say_at_end()

    def send_link_flow(self, link: Link, credit: int, available: int, is_drained: bool) -> None:
        self.incoming_window = self.window_size
        octets = encode_link_flow(
            self.channel,
            self.next_incoming_id,
            self.incoming_window,
            self.outgoing.next_outgoing_id,
            OUTGOING_WINDOW,
            link.handle,
            link.delivery_count,
            credit,
            available,
            is_drained,
        )
        if link.is_behind():
            self.connection.send(octets)
        else:
            self.connection.send_at_once(octets)

    # -- the steps

    def _say_at_end(self) -> None:
        self.is_due = True
        self.connection.say_at_end()

    def _require_known(self, event: int, handle: int, what: str) -> None:
        """Skip frames on a link that only we have ended.  Raises: UnattachedHandle, FramingError."""
        state = LINK_DISCARDING if handle in self.discarding else DETACHED
        if (state, event) not in LINK:
            raise self._unattached(what, handle)

    def _unattached(self, what: str, handle: int) -> AmqpError:
        """Return the error of a handle without a link; a handle above our maximum ends the connection (2.7.2)."""
        handle_max = self.connection.settings.handle_max
        if handle > handle_max:
            return FramingError(f"{what} handle {handle}; allowed is up to {handle_max}")
        return UnattachedHandle(f"{what} handle {handle}, to which no link is attached")

    def _send_window(self) -> None:
        self.incoming_window = self.window_size
        next_outgoing_id = self.outgoing.next_outgoing_id
        octets = encode_session_flow(
            self.channel, self.next_incoming_id, self.incoming_window, next_outgoing_id, OUTGOING_WINDOW
        )
        if self.state == BEGIN_RCVD:
            self.connection.send(octets)
        else:
            self.connection.send_at_once(octets)
