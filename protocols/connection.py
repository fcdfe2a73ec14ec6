"""The common shape of protocol adapters, as the gateway sees them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from protocols.guarded_client import GuardedClient
from protocols.input_share import InputShare
from protocols.peer_socket import PeerSocket
from protocols.peer_times import PeerTimes
from protocols.subscribed_memory import SubscribedMemory


@mypyc_attr(allow_interpreted_subclasses=True)
class ProtocolConnection(GuardedClient):
    """One connection: octets in, operations on the engine, octets out.  No sockets; times are passed in.

    Its parts know it, so it deletes them when it has left, and needs no garbage collector.

    ``is_finished`` has a meaning only while it is ending.
    subscribed: the memory of its subscriptions.
    share: of a turn, for the frames of its peer.
    now_ms: monotonic, of the latest call with a time.
    engine: of the engine; context, holdings, store_events: its parts.
    """

    __deletable__ = ("share",)
    __slots__ = ("share", "engine", "context", "holdings", "store_events", "subscribed", "now_ms")

    def __init__(self, engine: EngineApi, socket: PeerSocket, output_limit_bytes: int, now_ms: int) -> None:
        super().__init__(socket, output_limit_bytes)
        self.share = InputShare(self, engine.steps)
        self.engine = engine
        self.context = engine.context
        self.holdings = engine.holdings
        self.store_events = engine.store_events
        self.subscribed = SubscribedMemory()
        self.now_ms = now_ms

    def take_login(self, login: str, groups: Mapping[str, frozenset[str]]) -> str:
        """Become the user whose login was checked, and return its name.

        login: as the client gave it, or its certificate; a token may name another one.
        groups: of the users in the configuration.
        """
        found = self.socket.logged_in()
        if found is None:
            self.groups = groups.get(login, self.groups)
        else:
            login = found.user
            self.groups = found.groups
            self.is_external = found.is_external
        self.user = login
        return login

    def count_selector(self, characters: int) -> None:
        """Take note of a subscription's selector that has come, or, below 0, gone."""
        self.subscribed.selector_characters += characters
        if characters > 0:
            self.share.charge(characters)
        self.count_later()

    @abstractmethod
    def endpoint_bytes(self) -> int:
        """Return the memory of its subscriptions or sessions, without their consumers and links."""

    def end_input(self) -> None:
        self.share.wait()

    def connection_lost(self) -> None:
        self.lose()
        self.share.close()
        self.dissolve()

    @abstractmethod
    def lose(self) -> None:
        """Leave the engine, with everything that the connection holds."""

    def dissolve(self) -> None:
        """Delete the parts that know this connection.

        The engine may still ask who it was, until all its consumers have been closed, and what it owes; nothing else.
        """
        del self.share

    def holding(self) -> str:
        return "" if self.is_ending else self.held_words()

    @abstractmethod
    def held_words(self) -> str:
        """Return the parts of what it holds, in words."""

    def unread_now(self) -> int:
        return self.socket.unread_bytes() + self.outbox.rest_bytes

    def count_later(self) -> None:
        if not self.is_ending:
            self.is_holding = True
            self.outbox.touch()

    def refused(self) -> None:
        self.outbox.touch()

    def audit(self, action: str, target: str, is_denied: bool) -> None:
        self.socket.audit(self.user, action, target, is_denied)

    # -- called by the gateway

    @abstractmethod
    def protocol_name(self) -> str:
        """Return ``stomp``, ``amqp`` or ``openwire``."""

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

        Called only if that changes something: if it is paused, or ``is_output_full``, or only a piece has left.
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
    def fault_words(self, text: str) -> bytes:
        """Return the last octets for the peer if a defect of ours ends the connection, b"" if it can get none.

        It is asked before ``connection_lost``.  Nothing else of this turn is sent.
        """

    @abstractmethod
    def shut_down(self) -> None:
        """The gateway stops: inform the peer, release what can be released, finish."""


def holding_words(
    under_way_bytes: int,
    transaction_bytes: int,
    parked_bytes: int,
    name_bytes: int,
    subscribed_bytes: int,
    output_bytes: int = 0,
) -> str:
    """Return each part with its octets, "" for none."""
    parts = (
        ("messages under way", under_way_bytes),
        ("open transactions", transaction_bytes),
        ("what waits at a gate", parked_bytes),
        ("links", name_bytes),
        ("subscriptions and sessions", subscribed_bytes),
        ("output that waits for others", output_bytes),
    )
    return ", ".join(f"{what} {size}" for what, size in parts if size)


def end_reading(connection: ProtocolConnection, times: PeerTimes, partial_number: int) -> None:
    """All whole frames of a read are taken.  partial_number: of the one that is to go on, NO_FRAME for none."""
    if partial_number != times.partial_number:
        times.frame_seen(partial_number, connection.now_ms)
        connection.is_holding = True
    if not connection.outbox.is_touched:
        connection.outbox.touch()
