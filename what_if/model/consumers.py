"""A simulated consumer: holds what the engine hands it, and works on one message after the other.

Time inside a millisecond is counted in microseconds, so a consumer of fast messages may finish several in one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final

from engine.consumers.client import Client
from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.values.delivery import AS_THE_ADDRESS_SAYS, Delivery, Refusal
from engine.values.errors import EngineError
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from engine.values.outcomes import CAUSE_CLOSED, CAUSE_REJECTED
from what_if.trace.trace import (
    AT_ONCE,
    CLOSED,
    FAILED,
    GIVEN_UP,
    LOST,
    REJECTED,
    ROLLED_BACK,
    WORKED,
    Attempts,
    Owner,
    TracedConsumer,
)

if TYPE_CHECKING:
    from what_if.model.simulation import Simulation

US: Final = 1_000  # in a millisecond
LEAST_US: Final = 1_000  # of each further attempt with a message that fails for ever
PATIENCE: Final = 100  # of those attempts; later ones take longer, because a day has too many milliseconds
LEAST_LATER_US: Final = 1_000_000
REFERENCE: Final = Struct("<qqi")  # the body of a simulated message: log offset in the trace, first attempt, attempts
REFUSALS: Final = {
    FAILED: AS_THE_ADDRESS_SAYS,
    AT_ONCE: AS_THE_ADDRESS_SAYS,
    REJECTED: Refusal("dead-letter", cause=CAUSE_REJECTED),
    CLOSED: Refusal("redeliver", 0, CAUSE_CLOSED),
}
_MASK: Final = 2**64 - 1


def drawn(seed: int, offset: int, attempt: int) -> int:
    """Return 64 random bits, the same for the same arguments (splitmix64)."""
    bits = (seed * 0x9E3779B97F4A7C15 + offset * 0xD1B54A32D192ED03 + attempt * 0x8CB92BA72F3D8DD7) & _MASK
    bits = ((bits ^ bits >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & _MASK
    return bits ^ bits >> 31


class Work:
    """How each message fares with any consumer of one queue or subscription.

    place: of the queue or subscription in the trace.
    tried: how often each message has failed here, by its log offset in the simulation; the engine does not count all.
    """

    __slots__ = ("attempts", "consumers", "place", "seed", "is_drawn", "tried")

    def __init__(
        self, attempts: Attempts, consumers: list[TracedConsumer], place: int, seed: int, is_drawn: bool
    ) -> None:
        self.attempts = attempts
        self.consumers = consumers
        self.place = place
        self.seed = seed
        self.is_drawn = is_drawn
        self.tried: dict[int, int] = {}

    def with_consumer(self, message: Message, measured: TracedConsumer) -> tuple[int, int]:
        """Return the kind of an attempt, and its microseconds."""
        offset, first, count = message.log_offset, 0, 0
        if len(message.body) == REFERENCE.size:
            offset, first, count = REFERENCE.unpack(message.body)
        attempts = self.attempts
        tried = self.tried.get(message.log_offset, 0) if self.tried else 0
        later = tried  # attempts since the last one that was really made
        last = -1
        for row in range(first, first + count):
            if attempts.owners[row] == self.place:
                if not later and not self.is_drawn:
                    return attempts.kinds[row] & ~GIVEN_UP, self._measured_us(row, measured)
                if not later:
                    return attempts.kinds[row] & ~GIVEN_UP, self._drawn_us(offset, tried, measured)
                last = row
                later -= 1
        kind = attempts.kinds[last] if last >= 0 else WORKED
        time_us = self._drawn_us(offset, tried, measured)
        if kind & GIVEN_UP:  # for ever, perhaps, so time must pass
            return kind & ~GIVEN_UP, max(time_us, LEAST_US if later < PATIENCE else LEAST_LATER_US)
        return WORKED, time_us

    def failed(self, message: Message) -> None:
        """Count an attempt that has failed."""
        self.tried[message.log_offset] = self.tried.get(message.log_offset, 0) + 1

    def _measured_us(self, row: int, measured: TracedConsumer) -> int:
        """Return how long a message takes a consumer.

        As long as it took it really; with another consumer, the time that is as long among its own.
        """
        services = measured.services_us
        theirs = self.consumers[self.attempts.consumers[row]].services_us
        rank = self.attempts.ranks[row]
        return services[rank if theirs is services else (2 * rank + 1) * len(services) // (2 * len(theirs))]

    def _drawn_us(self, offset: int, attempt: int, measured: TracedConsumer) -> int:
        services = measured.services_us
        return services[drawn(self.seed, offset, attempt) * len(services) >> 64]


class Connection(Client):
    """One connection of a simulated consumer; another one follows when it is lost."""

    __slots__ = ("worker", "client_id", "name")

    def __init__(self, worker: SimulatedConsumer | None, client_id: str, name: str) -> None:
        super().__init__()
        self.worker = worker
        self.client_id = client_id
        self.name = name

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        assert self.worker is not None, "only a started consumer gets messages"
        self.worker.take(delivery)

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        raise AssertionError("simulated consumers acknowledge")

    def release_confirmations(self, offset: int) -> bool:
        return False

    def admit(self) -> None:
        raise AssertionError("a simulated consumer sends nothing")

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        raise AssertionError("a simulated consumer sends nothing")

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        assert self.worker is not None, "only a started consumer can be slow"
        self.worker.is_expelled = True
        self.worker.simulation.call_at(self.worker.simulation.clock.now_ms, self.worker)

    def describe(self) -> dict[str, str]:
        return {"client_id": self.client_id, "address": self.name} if self.client_id else {"address": self.name}


class Actor(ABC):
    """Somebody who does something at certain times."""

    __slots__ = ()

    @abstractmethod
    def act(self, now_ms: int) -> None:
        """Do what is due; calls that are not needed do nothing."""


def subscribed(simulation: Simulation, connection: Connection, owner: Owner, name: str) -> Consumer:
    """Return a new consumer of a queue or durable subscription.  name: of a queue's consumer."""
    simulation.broker.connect(connection)
    prefetch = simulation.prefetch
    options = SubscribeOptions(INDIVIDUAL, prefetch, name)
    if owner.subscription:
        options = SubscribeOptions(
            INDIVIDUAL,
            prefetch,
            subscription=owner.subscription.rpartition(":")[2],
            is_durable=True,
            is_shared=True,
            is_global=not connection.client_id,
        )
    return simulation.broker.subscribe(connection, simulation.destination(owner.kind, owner.name), options)


class Subscriber(Actor):
    """Makes a durable subscription, and leaves it to its consumers."""

    __slots__ = ("simulation", "owner")

    def __init__(self, simulation: Simulation, owner: Owner) -> None:
        self.simulation = simulation
        self.owner = owner

    def act(self, now_ms: int) -> None:
        connection = Connection(None, self.owner.subscription.rpartition(":")[0], "simulation")
        subscribed(self.simulation, connection, self.owner, "")
        self.simulation.broker.disconnect(connection, False)


class SimulatedConsumer(Actor):
    """measured: the consumer of the trace that it acts like.  from_ms, to_ms: when it is there.

    held: what it has been handed and has not settled, the one that it works on first.
    begun_us, done_us: of that one; once nothing is held, of the last one.
    is_expelled: the engine has found it too slow; it comes again.
    """

    __slots__ = (
        "simulation",
        "owner",
        "work",
        "measured",
        "from_ms",
        "to_ms",
        "connection",
        "consumer",
        "held",
        "kind",
        "begun_us",
        "done_us",
        "is_expelled",
    )

    def __init__(
        self, simulation: Simulation, owner: Owner, work: Work, measured: TracedConsumer, from_ms: int, to_ms: int
    ) -> None:
        self.simulation = simulation
        self.owner = owner
        self.work = work
        self.measured = measured
        self.from_ms = from_ms
        self.to_ms = to_ms
        self.connection: Connection | None = None
        self.consumer: Consumer | None = None
        self.held: deque[Delivery] = deque()
        self.kind = WORKED
        self.begun_us = 0
        self.done_us = 0
        self.is_expelled = False

    def act(self, now_ms: int) -> None:
        """Come, settle what is done, leave: what the time of the simulation asks for."""
        if self.connection is None:
            if self.from_ms <= now_ms < self.to_ms:
                self._come(now_ms)
            return
        now_us = now_ms * US
        while self.held and self.done_us <= now_us:
            self._settle(now_ms)
        if self.connection is not None:
            if self.is_expelled:
                self._leave(False)
                self._come(now_ms)
            elif now_ms >= self.to_ms and not (self.held and self.begun_us < self.to_ms * US):
                self._leave(False)

    def take(self, delivery: Delivery) -> None:
        """Take one message from the engine."""
        held = self.held
        held.append(delivery)
        if len(held) == 1:
            now_us = self.simulation.clock.now_ms * US
            # If it was done with the one before within this millisecond, it has waited for none.
            self._begin(self.done_us if self.done_us > now_us - US else now_us)

    def _begin(self, begun_us: int) -> None:
        self.kind, time_us = self.work.with_consumer(self.held[0].message, self.measured)
        self.begun_us = begun_us
        self.done_us = begun_us + time_us
        self.simulation.call_at(-(-self.done_us // US), self)

    def _settle(self, now_ms: int) -> None:
        """Settle the first message, and begin with the next."""
        broker = self.simulation.broker
        if self.kind != WORKED:
            self.work.failed(self.held[0].message)
        if self.kind == LOST:
            self._leave(True)
            if now_ms < self.to_ms:
                self._come(now_ms)
            return
        delivery = self.held.popleft()
        if self.kind == WORKED:
            broker.acknowledge(delivery)
        elif self.kind == ROLLED_BACK:
            broker.roll_back([delivery])
        else:
            broker.refuse(delivery, REFUSALS[self.kind])
        if self.held:
            self._begin(self.done_us)

    def _come(self, now_ms: int) -> None:
        simulation = self.simulation
        client_id = self.owner.subscription.rpartition(":")[0]
        self.connection = Connection(self, client_id, self.measured.name)
        self.consumer = subscribed(simulation, self.connection, self.owner, self.measured.name)
        self.consumer.start()
        if self.to_ms > now_ms:
            simulation.call_at(self.to_ms, self)

    def _leave(self, is_lost: bool) -> None:
        assert self.connection is not None, "it is there"
        self.simulation.broker.disconnect(self.connection, is_lost)
        self.connection = None
        self.consumer = None
        self.is_expelled = False
        self.held.clear()
