"""A Broker on fakes, turned by hand."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from config.matching import BOTH, AddressEntry, AddressMatcher, Pattern
from config.model import VirtualTopic
from config.permissions import PermissionMap
from engine.broker import Broker
from engine.broker_options import DEFAULT_VIRTUAL_TOPICS, NO_LIMITS, NO_USER_LIMITS, BrokerOptions
from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.consumers.user_quota import UserLimits
from engine.limits.producer_gates import GlobalLimits
from engine.ports.tracing import Tracing
from engine.sources.composite import Destination, Source
from engine.values import gates
from engine.values.broker_stats import DestinationStats
from engine.values.delivery import AS_THE_ADDRESS_SAYS, Delivery, Refusal
from engine.values.message import DEFAULT_PRIORITY, PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeClient, VirtualClock, VirtualTimers, destination_stats
from tests.support.store.scripted_store import ScriptedStore

MIB = 1024 * 1024


def address(pattern: str, **values: object) -> AddressEntry:
    """Return an address entry; ``__`` in a name means the dot of a path."""
    return AddressEntry(
        Pattern.parse(pattern), BOTH, {name.replace("__", "."): value for name, value in values.items()}
    )


class EngineWorld(BrokerView):
    """Everything that a test of the engine needs.  Call ``turn`` to see the effect of a step."""

    def __init__(
        self,
        *addresses: AddressEntry,
        memory_limit_bytes: int = 256 * MIB,
        store: ScriptedStore | None = None,
        permissions: PermissionMap | None = None,
        limits: GlobalLimits = NO_LIMITS,
        virtual_topics: tuple[VirtualTopic, ...] = DEFAULT_VIRTUAL_TOPICS,
        user_limits: UserLimits = NO_USER_LIMITS,
        has_message_times: bool = False,
        tracing: Tracing | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.store = store or ScriptedStore()
        matcher = AddressMatcher(addresses)
        options = BrokerOptions(
            seed=7,
            permissions=permissions,
            limits=limits,
            virtual_topics=virtual_topics,
            user_limits=user_limits,
            has_message_times=has_message_times,
            tracing=tracing,
        )
        self.broker = Broker(self.store, self.clock, self.timers, matcher, memory_limit_bytes, options)

    def turn(self) -> int:
        """End turns until no work is left; pages are served, syncs are not finished.

        Settlements without a waiting client are logged now, not a little later.
        """
        while True:
            offset = self.broker.end_turn()
            self.broker.begin_turn()
            served = self.store.serve_pages()
            if not served and not self.broker.has_more_to_do():
                self.broker.flush_settlements()
                return offset

    def advance(self, milliseconds: int) -> None:
        """Let time pass, timer by timer."""
        until_ms = self.clock.now_ms + milliseconds
        while True:
            next_ms = self.timers.next_ms()
            is_due = next_ms is not None and next_ms <= until_ms
            self.clock.now_ms = max(next_ms, self.clock.now_ms) if next_ms is not None and is_due else until_ms
            self.broker.begin_turn()
            if is_due:
                self.timers.fire_due()
            self.turn()
            if not is_due and not self.is_more_to_come():
                return

    def finish_turns(self) -> int:
        """Let everything go on that one turn had no steps for; return how many turns it took."""
        turns = 1
        self.turn()
        while self.is_more_to_come():
            self.advance(0)
            turns += 1
        return turns

    def client(self, name: str = "client", client_id: str = "") -> FakeClient:
        client = FakeClient(name, client_id)
        self.broker.connect(client)
        return client

    def consumer(
        self,
        client: FakeClient,
        destination: str | Source = "q",
        ack_mode: int = INDIVIDUAL,
        prefetch: int | None = None,
        name: str = "sub",
        **asked: Any,
    ) -> Consumer:
        """Subscribe and start.  asked: other fields of SubscribeOptions."""
        if isinstance(destination, str):
            destination = self.queue(destination)
        consumer = self.broker.subscribe(client, destination, SubscribeOptions(ack_mode, prefetch, name, **asked))
        consumer.start()
        return consumer

    def consuming(self, *given: Any, **asked: Any) -> FakeClient:
        """Return a new client that consumes as in ``consumer``."""
        client = self.client()
        self.consumer(client, *given, **asked)
        return client

    def subscribe(self, client: FakeClient, *given: Any, **asked: Any) -> Consumer:
        """Subscribe as in ``consumer`` and end the turn."""
        consumer = self.consumer(client, *given, **asked)
        self.turn()
        return consumer

    def subscriber(self, *given: Any, **asked: Any) -> FakeClient:
        """Return a new client that consumes as in ``consumer``; end the turn."""
        client = self.client()
        self.subscribe(client, *given, **asked)
        return client

    def drain_output(self, client: FakeClient) -> None:
        """Have the peer take all output; end the turn."""
        self.broker.output_drained(client)
        self.turn()

    def begin_later(self, milliseconds: int) -> None:
        """Let time pass, begin a turn and fire what is due; the turn stays open."""
        self.clock.now_ms += milliseconds
        self.broker.begin_turn()
        self.timers.fire_due()

    def unsubscribe(self, consumer: Consumer) -> None:
        """Close a consumer in order and end the turn."""
        self.broker.unsubscribe(consumer, is_lost=False)
        self.turn()

    def message(
        self,
        destination: Destination,
        body: bytes,
        *,
        persistent: bool = True,
        priority: int = DEFAULT_PRIORITY,
        expires_ms: int = 0,
        headers: str = "",
        group: str = "",
    ) -> Message:
        """headers: of the SEND, as ``name:value`` with blanks between them."""
        flags = PERSISTENT if persistent else 0
        lines = headers.split() + ([f"JMSXGroupID:{group}"] if group else [])
        block = "".join(f"{line}\n" for line in lines).encode()
        group_hash = crc32(group.encode()) if group else 0
        return Message(destination.destination_id, STOMP, flags, priority, 0, group_hash, expires_ms, b"", block, body)

    def send(
        self,
        *bodies: bytes,
        to: str | Destination = "q",
        persistent: bool = True,
        priority: int = DEFAULT_PRIORITY,
        expires_ms: int = 0,
        headers: str = "",
        group: str = "",
        sender: FakeClient | None = None,
    ) -> None:
        """Send and end the turn; every message must be accepted."""
        destination = self.queue(to) if isinstance(to, str) else to
        self.hear(0 if sender is None else sender.client_number)
        for body in bodies:
            message = self.message(
                destination,
                body,
                persistent=persistent,
                priority=priority,
                expires_ms=expires_ms,
                headers=headers,
                group=group,
            )
            assert self.broker.send(destination, message) == gates.OPEN
        self.turn()

    def try_send(self, body: bytes, to: str | Destination = "q", *, persistent: bool = True) -> int:
        """Return the gate that refused it, gates.OPEN for none."""
        destination = self.queue(to) if isinstance(to, str) else to
        return self.broker.send(destination, self.message(destination, body, persistent=persistent))

    def acknowledge(self, *deliveries: Delivery) -> None:
        for delivery in deliveries:
            self.broker.acknowledge(delivery)
        self.turn()

    def refuse(self, *deliveries: Delivery, refusal: Refusal = AS_THE_ADDRESS_SAYS) -> None:
        for delivery in deliveries:
            self.broker.refuse(delivery, refusal)
        self.turn()

    def lose(self, client: FakeClient) -> None:
        """Cut the connection."""
        self.broker.disconnect(client, is_lost=True)
        self.turn()

    def leave(self, client: FakeClient) -> None:
        """Close it in order."""
        self.broker.disconnect(client, is_lost=False)
        self.turn()

    def dead_letters(self, name: str = "ActiveMQ.DLQ") -> list[Message]:
        """Consume a dead-letter queue; return its messages."""
        client = self.client("operator")
        self.consumer(client, name, AUTO)
        self.turn()
        return [one.message for one in client.handed]

    def stats(self, name: str = "q") -> DestinationStats:
        return destination_stats(self.broker.inspect(), name)


def taken(client: FakeClient, world: EngineWorld) -> list[bytes]:
    """Return the bodies that came since the last call, and acknowledge them."""
    handed, client.handed = client.handed, []
    world.acknowledge(*[one.delivery for one in handed if one.delivery is not None])
    return [one.body for one in handed]


def world_with_client(*addresses: AddressEntry) -> tuple[EngineWorld, FakeClient]:
    """Return a world and a client that has connected."""
    world = EngineWorld(*addresses)
    return world, world.client()


def world_with_consumer(
    *addresses: AddressEntry, destination: str = "q", **asked: Any
) -> tuple[EngineWorld, FakeClient]:
    """Return a world and a client that consumes as in ``EngineWorld.consumer``."""
    world = EngineWorld(*addresses)
    return world, world.consuming(destination, **asked)
