"""STOMP sessions with a real engine on the store in memory; no sockets: octets in, octets out, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from config.matching import AddressEntry, AddressMatcher
from config.permissions import PermissionMap
from engine.broker import Broker
from engine.broker_options import NO_USER_LIMITS, BrokerOptions
from engine.consumers.user_quota import UserLimits
from engine.ports.workers import READ_LANE, SYNC_LANE
from engine.values.broker_stats import DestinationStats
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frames import COMMANDS, NAMES
from protocols.stomp.codec.versions import VERSIONS
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeLink, HeldWorkers, VirtualClock, VirtualTimers, destination_stats
from tests.support.protocols.socket_peer import SocketPeer
from tests.support.store.memory_store import MemoryStore

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Received:
    """One frame from the gateway.  has_length: it had a content-length."""

    command: str
    headers: dict[str, str]
    body: bytes = b""
    has_length: bool = False

    def __getitem__(self, name: str) -> str:
        return self.headers[name]


class StompGateway(BrokerView):
    """syncs: False to hold every confirmation back until ``sync``.

    earlier: a killed gateway; this one starts with its durable state.
    """

    broker_class: type[Broker] = Broker

    def __init__(
        self,
        *addresses: AddressEntry,
        settings: SessionSettings | None = None,
        memory_limit_bytes: int = 256 * MIB,
        store: MemoryStore | None = None,
        workers: HeldWorkers | None = None,
        permissions: PermissionMap | None = None,
        is_restartable: bool = False,
        earlier: StompGateway | None = None,
        connection_memory_bytes: int = 256 * MIB,
        user_limits: UserLimits = NO_USER_LIMITS,
    ) -> None:
        self.clock: VirtualClock = VirtualClock() if earlier is None else earlier.clock
        self.timers = VirtualTimers(self.clock)
        self.workers = workers or HeldWorkers()
        if earlier is None:
            self.store = store or MemoryStore(self.workers, "c0ffee00", 3, is_restartable)
        else:
            self.store = earlier.store.restarted(self.workers)
        self.broker = self.broker_class(
            self.store,
            self.clock,
            self.timers,
            AddressMatcher(addresses),
            memory_limit_bytes,
            BrokerOptions(
                seed=7,
                permissions=permissions,
                connection_memory_bytes=connection_memory_bytes,
                user_limits=user_limits,
                **self.broker_options(),
            ),
        )
        self.settings = settings or SessionSettings()
        self.peers: list[SocketPeer] = []
        self.syncs = True
        self._is_held = False

    def broker_options(self) -> dict[str, Any]:
        """Return further options of the broker."""
        return {}

    def open(self) -> Peer:
        """Accept a connection without an octet."""
        peer = Peer(self, len(self.peers) + 1)
        self.peers.append(peer)
        return peer

    def connect(self, version: str = "1.2", **headers: str) -> Peer:
        """Return a connected peer that has taken CONNECTED."""
        peer = self.open()
        accepted = {} if version == "1.0" else {"accept-version": version, "host": "test"}
        peer.send("CONNECT", **accepted, **headers)
        (connected,) = peer.take()
        assert connected.command == "CONNECTED", connected
        assert connected["version"] == version
        return peer

    def subscriber(self, destination: str, *given: str, **headers: str) -> Peer:
        """Return a peer of version 1.2 that has connected and subscribed."""
        peer = self.connect()
        peer.subscribe(destination, *given, **headers)
        return peer

    @contextmanager
    def one_turn(self) -> Iterator[None]:
        """Let everything that is sent inside arrive in one turn."""
        assert not self._is_held
        self._is_held = True
        yield
        self._is_held = False
        self.settle()

    def settle(self) -> None:
        """End turns until no work is left."""
        if self._is_held:
            return
        while True:
            offset = self.broker.end_turn()
            confirmed_offset = self.store.confirmed_offset()
            for peer in self.peers:
                peer.flush(offset, confirmed_offset)
            self.broker.sync()
            self.broker.begin_turn()
            moved = self.workers.finish(READ_LANE)
            if self.syncs:
                moved = self.workers.finish(SYNC_LANE) or moved
            if not moved and not self.broker.has_more_to_do() and not any(peer.link.is_touched for peer in self.peers):
                return

    def sync(self) -> None:
        """Make all written records durable."""
        while self.workers.finish(SYNC_LANE):
            pass
        self.settle()

    def advance(self, milliseconds: int) -> None:
        """Let time pass: timers and ticks in their order."""
        until_ms = self.clock.now_ms + milliseconds
        while True:
            ticks = [peer.next_tick_ms for peer in self.peers if not peer.is_closed]
            timer_ms = self.timers.next_ms()
            next_ms = min(ticks + ([] if timer_ms is None else [timer_ms]))
            if next_ms > until_ms:
                break
            self.clock.now_ms = max(self.clock.now_ms, next_ms)
            self.broker.begin_turn()
            self.timers.fire_due()
            for peer in self.peers:
                peer.tick(self.clock.now_ms)
            self.settle()
        self.clock.now_ms = until_ms
        self.broker.begin_turn()
        self.settle()

    def stats(self, name: str) -> DestinationStats:
        return destination_stats(self.broker.inspect(), name)

    def reason(self, peer: Peer) -> str:
        """Return why a producer waits."""
        return self.broker.inspect().blocked_producers.get(peer.session.client_number, "")


class StompSpeech:
    """What a STOMP client says and hears, on any kind of socket.

    octets: received and not taken.  version: of the protocol, once it is agreed on.
    """

    octets: bytes
    is_closed: bool

    def __init__(self) -> None:
        self._decoder = Decoder()

    @property
    def version(self) -> int:
        return self._decoder.version

    def send_octets(self, octets: bytes) -> None:
        raise NotImplementedError

    def answer_login(self, *, is_allowed: bool) -> None:
        """Do nothing: unless a gateway leaves it to the test, it answers by itself."""

    def vanish(self) -> None:
        """Cut the connection."""
        raise NotImplementedError

    def send(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Send one frame; ``_`` in a name in small letters means ``-``."""
        named = [(name.replace("_", "-") if name.islower() else name, value) for name, value in headers.items()]
        self.send_octets(encode(COMMANDS[command.encode()], named, body, self.version))

    def send_confirmed(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Send one frame whose receipt, and nothing else, must come at once."""
        self.send(command, body, receipt="confirmed", **headers)
        assert self.receipts() == ["confirmed"]

    def publish(self, destination: str, *bodies: bytes, **headers: str) -> None:
        for body in bodies:
            self.send("SEND", body, destination=destination, **headers)

    def subscribe(self, destination: str, ack: str = "client-individual", id: str = "s", **headers: str) -> None:
        self.send("SUBSCRIBE", destination=destination, ack=ack, id=id, **headers)

    def takes(self, most: FrameLimits) -> None:
        """Accept frames up to these limits."""
        self._decoder.limits = most

    def take(self) -> list[Received]:
        """Return the frames since the last call."""
        frames = []
        self._decoder.receive_data(self.octets)
        self.octets = b""
        while (frame := self._decoder.next_frame()) is not None:
            if frame.head.command == COMMANDS[b"CONNECTED"]:
                self._decoder.version = VERSIONS[frame.head.headers.get("version", "1.0")]
            name = NAMES[frame.command].decode()
            frames.append(Received(name, frame.head.headers, frame.body, frame.head.content_length >= 0))
        return frames

    def messages(self) -> list[Received]:
        """Return the frames since the last call, which must all be messages."""
        frames = self.take()
        assert [frame for frame in frames if frame.command != "MESSAGE"] == []
        return frames

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages()]

    def receipts(self) -> list[str]:
        """Return the receipts since the last call; no other frame may have come."""
        frames = self.take()
        assert [frame for frame in frames if frame.command != "RECEIPT"] == []
        return [frame["receipt-id"] for frame in frames]

    def error(self) -> Received:
        """Return the only received frame, an ERROR after which the gateway has closed."""
        (frame,) = self.take()
        assert frame.command == "ERROR", frame
        assert self.is_closed
        return frame


class Peer(SocketPeer, StompSpeech):
    """A client that speaks STOMP."""

    def __init__(self, gateway: StompGateway, number: int) -> None:
        link = FakeLink(f"192.0.2.1:{40_000 + number}")
        self.session = StompSession(gateway.broker, link, gateway.settings, gateway.clock.now_ms)
        SocketPeer.__init__(self, gateway, link, self.session)
        StompSpeech.__init__(self)
        self.gateway = gateway

    @property
    def version(self) -> int:
        return self.session.version


def limits(**values: int) -> FrameLimits:
    return FrameLimits(**values)


def connected(version: str = "1.2", **headers: str) -> tuple[StompGateway, Peer]:
    """Return a gateway with the defaults and a peer that has connected."""
    gateway = StompGateway()
    return gateway, gateway.connect(version, **headers)
