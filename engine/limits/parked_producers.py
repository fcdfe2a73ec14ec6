"""Clients whose input is parked: which gate each waits at, its rate of sending, and how much of its input may wait.

engine.limits.producer_gates decides whether a producer must wait, and why.

Source: docs/reference/semantics.md, "Full addresses".
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

from mypy_extensions import mypyc_attr

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.window_limits import TokenBucket
from engine.ports.timers import TimerTarget
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.errors import AddressFull

LINE_GATES: Final = (gates.ADDRESS_FULL, gates.CREDIT, gates.MEMORY)  # where producers go on one after the other


class Wait:
    """One client at one gate, for one destination, since ``since_ms`` (monotonic).

    deadline: its key in ``ProducerWaits.deadlines``, 0 without one.
    """

    __slots__ = ("client", "gate", "destination", "since_ms", "deadline")

    def __init__(self, client: Client, gate: int, destination: Queue | Topic, since_ms: int) -> None:
        self.client = client
        self.gate = gate
        self.destination = destination
        self.since_ms = since_ms
        self.deadline = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class UserRatesBase(TimerTarget):
    """How fast each user may send (engine.limits.user_rates)."""

    __slots__ = ()

    @abstractmethod
    def wait(self, client: Client) -> None:
        """Have ``ProducerWaits.admit`` called for the client once its user may send again."""

    @abstractmethod
    def forget(self, client: Client) -> None:
        """Do not call it any more."""


class ProducerWaits(TimerTarget):
    """parked: client number -> (gate, URI) -> the client's wait there.

    retrying: waits of the client that is being admitted; those that it parks again keep their start.
    deadlines: timer key -> a wait that ends then: with an error, or at the gate RATE with the next second.
    buckets: client number -> URI -> the messages it may still send there in this second.
    counts: gate -> how many waits at it have begun since the start.
    user_rates: None where users have no rate.
    """

    __slots__ = (
        "clock",
        "timers",
        "observers",
        "parked",
        "retrying",
        "deadlines",
        "next_deadline",
        "buckets",
        "counts",
        "user_rates",
    )

    def __init__(self, context: Context, observers: list[Observer]) -> None:
        self.clock = context.clock
        self.timers = context.timers
        self.observers = observers
        self.parked: dict[int, dict[tuple[int, str], Wait]] = {}
        self.retrying: dict[tuple[int, str], Wait] = {}
        self.deadlines: dict[int, Wait] = {}
        self.next_deadline = 1
        self.buckets: dict[int, dict[str, TokenBucket]] = {}
        self.counts = dict.fromkeys(gates.PRODUCER_GATES, 0)
        self.user_rates: UserRatesBase | None = None

    def rate_refusal(self, client: Client, destination: Queue | Topic) -> int:
        """Return gates.RATE if the client has used up its messages of this second; otherwise count one.

        Source: HornetQ producer-max-rate.  It delays and never drops; messages sent in a transaction are not counted.
        """
        intake = destination.intake
        if intake is None or intake.rate <= 0:
            return gates.OPEN
        buckets = self.buckets.setdefault(client.client_number, {})
        bucket = buckets.get(destination.uri())
        if bucket is None:
            bucket = TokenBucket(intake.rate)
            buckets[destination.uri()] = bucket
        return gates.OPEN if bucket.take(self.clock.monotonic_ms()) else gates.RATE

    def not_sent(self, client: Client, destination: Queue | Topic) -> None:
        """Give back what ``rate_refusal`` has counted for a message that another gate refuses."""
        self.buckets[client.client_number][destination.uri()].tokens += 1

    def park(self, client: Client, gate: int, destination: Queue | Topic) -> None:
        """Record that ``client`` waits at ``gate``; ``Client.admit`` is called when it may try again."""
        key = (gate, destination.uri())
        waits = self.parked.setdefault(client.client_number, {})
        wait = waits.get(key) or self.retrying.pop(key, None)
        if wait is not None:
            wait.destination = destination  # the earlier one may have been deleted and made anew
            waits[key] = wait
            return
        wait = Wait(client, gate, destination, self.clock.monotonic_ms())
        waits[key] = wait
        self.counts[gate] += 1
        account = destination.account
        if gate in (gates.ADDRESS_FULL, gates.CREDIT) and account is not None:
            limit = account.describe()
            for observer in self.observers:
                observer.fast_producer(client, destination)
                observer.full(destination, limit)
        if gate == gates.USER_RATE:
            assert self.user_rates is not None, "the gate is that of a rate"
            self.user_rates.wait(client)
        elif gate == gates.RATE:
            self._call_at(self.buckets[client.client_number][destination.uri()].refill_ms, wait)
        elif gate == gates.ADDRESS_FULL and account is not None and account.timeout_ms > 0:
            self._call_at(wait.since_ms + account.timeout_ms, wait)

    def forget(self, client: Client) -> None:
        """Forget a connection that is gone, and its waits."""
        self.buckets.pop(client.client_number, None)
        if self.user_rates is not None:
            self.user_rates.forget(client)
        for wait in self.parked.pop(client.client_number, {}).values():
            self.deadlines.pop(wait.deadline, None)

    def admit(self, client_number: int) -> None:
        """Let a client send again what it has parked; messages whose gate is still shut are parked again at once.

        A client of which a full address or memory has taken nothing keeps its place before those that came later.
        """
        waits = self.parked.get(client_number)
        if not waits:
            return
        again: dict[tuple[int, str], Wait] = {}
        self.parked[client_number] = again
        self.retrying = {
            key: wait for key, wait in waits.items() if wait.gate not in (gates.RATE, gates.USER_RATE)
        }  # each second is a new wait
        next(iter(waits.values())).client.admit()
        self.retrying = {}
        if self.parked.get(client_number) is not again:  # the connection has gone
            return
        has_sent = any(wait.gate not in LINE_GATES or waits.get(key) is not wait for key, wait in again.items())
        if has_sent or not again:
            del self.parked[client_number]  # clients listed here have a wait
        if has_sent:
            self.parked[client_number] = again  # behind the others

    def timer_fired(self, key: int) -> None:
        wait = self.deadlines.pop(key, None)
        if wait is None:
            return
        uri = wait.destination.uri()
        account = wait.destination.account
        number = wait.client.client_number
        waits = self.parked.get(number)
        if waits is None or waits.get((wait.gate, uri)) is not wait:
            return
        if wait.gate == gates.RATE or account is None:  # without an account the address was deleted
            self.admit(number)
            return
        del waits[(wait.gate, uri)]  # later messages have deadlines of their own
        if not waits:
            del self.parked[number]  # clients listed here have a wait
        wait.client.waited_too_long(
            uri,
            AddressFull(
                f"{account.describe()}; the message waited {account.timeout_ms} ms for room, which is the limit "
                "(block-timeout-ms)"
            ),
        )

    def waited_ms(self, client_number: int) -> int:
        """Return the longest wait of the client's parked messages."""
        waits = self.parked.get(client_number, {}).values()
        return self.clock.monotonic_ms() - min(wait.since_ms for wait in waits) if waits else 0

    def _call_at(self, when_ms: int, wait: Wait) -> None:
        self.deadlines[self.next_deadline] = wait
        wait.deadline = self.next_deadline
        self.timers.call_at(when_ms, self, self.next_deadline)
        self.next_deadline += 1


READ_ON: Final = 0
PAUSE: Final = 1  # read nothing more until less waits
REFUSE: Final = 2


@dataclass(slots=True, eq=False)
class BlockLimit:
    """pause_bytes: for a connection that only sends; reading it pauses above this.

    most_bytes: for one that also has consumers.  It must be read on, because its acknowledgements follow what it sends;
    messages above this are refused.  A single message may wait whatever its size, or it could never be sent.
    """

    pause_bytes: int
    most_bytes: int

    def verdict(self, client: Client, waiting_bytes: int, more_bytes: int) -> int:
        """Return what to do with a connection of which ``waiting_bytes`` wait and ``more_bytes`` have arrived."""
        if client.consumers:
            return REFUSE if waiting_bytes and waiting_bytes + more_bytes > self.most_bytes else READ_ON
        return PAUSE if waiting_bytes + more_bytes >= self.pause_bytes else READ_ON
