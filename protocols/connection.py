"""The common shape of protocol adapters, as the gateway sees them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.door import Door
from engine.values.errors import DATA_FAULTS, EngineError, PenstockError
from protocols.outbox import Outbox
from protocols.peer_socket import PeerSocket

CONSUMER_BYTES: Final = 1024  # memory of a consumer's objects, measured
SELECTOR_PART: Final = 40  # octets of memory for each character of a selector, measured
SUBSCRIBED_FREE_BYTES: Final = 256 * 1024  # of both, for each connection: fleets of ordinary ones count nothing


@mypyc_attr(allow_interpreted_subclasses=True)
class ProtocolConnection(Client):
    """One connection: octets in, operations on the engine, octets out.  No sockets; times are passed in.

    is_ending: nothing more is read; ``is_finished`` has a meaning only then.
    selector_characters: of the selectors of all its subscriptions.
    outbox: octets for ``end_turn`` to return.  door: of the engine; context, holdings, store_events: its parts.
    """

    __slots__ = ("is_ending", "socket", "outbox", "door", "context", "holdings", "store_events", "selector_characters")

    def __init__(self, door: Door, socket: PeerSocket, output_limit_bytes: int) -> None:
        super().__init__()
        self.is_ending = False
        self.socket = socket
        self.outbox = Outbox(socket, output_limit_bytes)
        self.door = door
        self.context = door.context
        self.holdings = door.holdings
        self.store_events = door.store_events
        self.selector_characters = 0

    def count_selector(self, characters: int) -> None:
        """Take note of a subscription's selector that has come, or, below 0, gone."""
        self.selector_characters += characters
        self.is_holding = True

    def subscribed_bytes(self) -> int:
        """Return what its consumers and their selectors take, beyond what any connection may have of them."""
        size_bytes = len(self.consumers) * CONSUMER_BYTES + self.selector_characters * SELECTOR_PART
        return max(0, size_bytes - SUBSCRIBED_FREE_BYTES)

    def unread_now(self) -> int:
        return self.socket.unread_bytes()

    def refused(self) -> None:
        self.outbox.touch()

    # -- called by the engine in the middle of a turn: a defect of ours in it ends only this connection

    def give_up(self, error: EngineError) -> None:
        try:
            if not self.is_ending:
                self.fail(error)
            if self.unread_bytes or self.socket.gathered_bytes():
                self.socket.cut_off()
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def release_confirmations(self, offset: int) -> bool:
        try:
            is_owed = self.release_owed(offset)
            self.outbox.touch()
            return is_owed
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise
            return False

    def admit(self) -> None:
        try:
            self.send_waiting()
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        try:
            self.refuse_waiting(uri, error)
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        try:
            if with_connection or not self.end_consumer(consumer, error):
                self.fail(error)
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    # -- the protocol's own part

    @abstractmethod
    def fail(self, error: PenstockError) -> None:
        """End the connection because of an error, and send the peer the reason."""

    @abstractmethod
    def release_owed(self, offset: int) -> bool:
        """Release the confirmations that waited for ``offset``; say whether others wait."""

    @abstractmethod
    def send_waiting(self) -> None:
        """Try the frames that wait at a gate again, see ``admit``."""

    @abstractmethod
    def refuse_waiting(self, uri: str, error: EngineError) -> None:
        """Answer the frames that wait for ``uri`` with ``error``."""

    def end_consumer(self, consumer: Consumer, error: EngineError) -> bool:
        """End one consumer and send the peer the reason; return False if the protocol cannot."""
        return False

    # -- called by the gateway

    @abstractmethod
    def receive_data(self, octets: bytes, now_ms: int) -> None:
        """Take the octets of one read; ``now_ms`` is monotonic.  Never raises for bad input."""

    @abstractmethod
    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        """Return all octets that may leave now.

        offset: the one that confirmations of this turn wait for.  confirmed_offset: the one reached already.
        """

    @abstractmethod
    def output_written(self, is_paused: bool) -> None:
        """Note that the transport has the octets of ``end_turn``; ``is_paused``: it accepts no more for now.

        Called only if that changes something: if it is paused, or ``is_output_full``.
        """

    @abstractmethod
    def is_finished(self) -> bool:
        """Say whether the connection is to be closed once its octets are sent."""

    @abstractmethod
    def authenticated(self, is_allowed: bool) -> None:
        """Take the result of ``PeerSocket.authenticate``."""

    @abstractmethod
    def tick(self, now_ms: int) -> int:
        """Do the timed work (heart-beats, limits); return the milliseconds until the next tick.

        now_ms: monotonic; all octets that had reached the socket by then have been received.
        """

    @abstractmethod
    def is_blocked(self) -> bool:
        """Say whether unconfirmed frames wait at a gate; a client that hangs up takes them back."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Too many frames wait at a gate: accept no more until some of them have passed."""

    @abstractmethod
    def input_ended(self) -> None:
        """The peer sends no more but may still read: finish once all owed confirmations are sent."""

    @abstractmethod
    def fault_words(self, text: str) -> bytes:
        """Return the last octets for the peer if a defect of ours ends the connection, b"" if it can get none.

        Nothing else of this turn is sent.
        """

    @abstractmethod
    def connection_lost(self) -> None:
        """The socket is gone."""

    @abstractmethod
    def shut_down(self) -> None:
        """The gateway stops: inform the peer, release what can be released, finish."""


def holding_words(
    under_way_bytes: int, transaction_bytes: int, parked_bytes: int, name_bytes: int, subscribed_bytes: int
) -> str:
    """Return each part with its octets, "" for none."""
    parts = (
        ("messages under way", under_way_bytes),
        ("open transactions", transaction_bytes),
        ("what waits at a gate", parked_bytes),
        ("links", name_bytes),
        ("subscriptions", subscribed_bytes),
    )
    return ", ".join(f"{what} {size}" for what, size in parts if size)
