"""A simulation of many readers whose turns have hardly any steps, so that most work goes on in later turns.

No reader gets a message twice, out of order, or one that it did not ask for.  As soon as no work is left, a reader has
got every message that is there for it.  Accounts, chores and memory return to zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from config.matching import AddressEntry
from engine.broker import Broker
from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.sources.composite import Destination
from engine.values.message import Message
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient, Handed
from tests.support.world.bodies import Violation

COLOURS: Final = ("red", "blue", "green")
SIZES: Final = (1, 300, 3_000)
ROUNDS: Final = 5
ROUND_ACTIONS: Final = 25  # between two times without work left
REST_TURNS: Final = 600


@dataclass(slots=True, eq=False)
class Sent:
    """place: name of its queue or topic."""

    uid: int
    place: str
    colour: str
    number: int
    priority: int = 4
    is_persistent: bool = True


SELECTORS: Final[dict[str, Callable[[Sent], bool]]] = {
    "": lambda sent: True,
    "colour = 'red'": lambda sent: sent.colour == "red",
    "colour LIKE 'r%'": lambda sent: sent.colour == "red",
    "colour IN ('red', 'blue') AND n > 3": lambda sent: sent.colour != "green" and sent.number > 3,
    "n > 3": lambda sent: sent.number > 3,
}


@dataclass(slots=True, eq=False)
class Reader:
    """kind: "view", "browser", "replay" or "subscription".  since: newest message when it came.

    got: what it was handed, in order.  expected: what was published for it.  last: the newest it got, by lane or topic.
    """

    client: FakeClient
    consumer: Consumer
    kind: str
    place: str
    selector: str
    since: int
    is_no_local: bool = False
    got: list[int] = field(default_factory=list)
    expected: list[int] = field(default_factory=list)
    last: dict[object, int] = field(default_factory=dict)

    def describe(self) -> str:
        return f"{self.kind} of {self.place} with selector {self.selector!r}"


class ReaderWorld(RestartWorld):
    """steps: most that a turn has left at its end."""

    readers_max: int

    def __init__(
        self,
        seed: int,
        *addresses: AddressEntry,
        memory_limits_bytes: tuple[int, ...],
        broker_class: type[Broker] = Broker,
    ) -> None:
        self.broker_class = broker_class
        self.chance = Random(seed)
        self.steps = 0
        super().__init__(*addresses, memory_limit_bytes=self.chance.choice(memory_limits_bytes))
        self.steps = self.chance.choice((10, 20, 60))
        self.clients = [self.client(f"c{number}") for number in range(4)]
        self.readers: dict[Consumer, Reader] = {}
        self.sent: dict[int, Sent] = {}
        self.delivered: Counter[str] = Counter()  # by kind of reader

    def run(self) -> None:
        """Raises: Violation."""
        for _ in range(ROUNDS):
            for _ in range(ROUND_ACTIONS):
                self._step()
                self._look()
            self._rest()
            for reader in self.readers.values():
                self._check_complete(reader)
        self._finish()

    def end_turn(self) -> int:
        self.leave_steps(self.chance.randint(0, self.steps))
        return super().end_turn()

    # -- actions

    def _step(self) -> None:
        chance = self.chance
        draw = chance.random()
        if draw < 0.4:
            for _ in range(chance.randint(1, 8)):
                self._send()
        elif draw < 0.55:
            if len(self.readers) < self.readers_max:
                self._open()
        elif draw < 0.6:
            if self.readers:
                self._close(chance.choice(list(self.readers)))
        elif draw < 0.7:
            for consumer in self.readers:
                for delivery in list(consumer.ledger.values())[: chance.randint(0, 20)]:
                    self.broker.acknowledge(delivery)
        elif draw < 0.8:
            self._act()
        elif draw < 0.9:
            self.end_turn()
            self.broker.begin_turn()
            self.leave_steps(chance.choice((0, 1, 2)))
        else:
            self.advance(chance.choice((0, 1, 30, 31_000)))

    def _make(self, destination: Destination, sent: Sent, **more: Any) -> Message:
        self.sent[sent.uid] = sent
        return self.message(
            destination,
            b"%d " % sent.uid + b"x" * self.chance.choice(SIZES),
            persistent=sent.is_persistent,
            priority=sent.priority,
            headers=f"colour:{sent.colour} n:{sent.number} _AMQ_LVQ_NAME:{sent.number % 4}",
            **more,
        )

    def _draw(self, place: str, **more: Any) -> Sent:
        return Sent(len(self.sent) + 1, place, self.chance.choice(COLOURS), self.chance.randint(0, 9), **more)

    def _send(self) -> None:
        raise NotImplementedError

    def _open(self) -> None:
        raise NotImplementedError

    def _act(self) -> None:
        raise NotImplementedError

    def _asked(self, places: tuple[str, ...]) -> tuple[FakeClient, str, str, int, int]:
        """Return a client, a place, a selector, a mode and a prefetch."""
        chance = self.chance
        mode = chance.choice((AUTO, AUTO, INDIVIDUAL))
        selector = chance.choice(list(SELECTORS))
        return chance.choice(self.clients), chance.choice(places), selector, mode, chance.choice((1, 5, 100))

    def _close(self, consumer: Consumer) -> None:
        del self.readers[consumer]
        self.broker.unsubscribe(consumer, is_lost=False)

    # -- observations

    def _look(self) -> None:
        for client in self.clients:
            handed, client.handed = client.handed, []
            for one in handed:
                self._delivered(self.readers[one.consumer], one)

    def _delivered(self, reader: Reader, one: Handed) -> None:
        sent = self.sent[uid_of(one.message)]
        what = f"message {sent.uid} for the {reader.describe()}"
        self.delivered[reader.kind] += 1
        if sent.uid in reader.got:
            raise Violation(f"{what} comes twice")
        if not self._is_for(reader, sent):
            raise Violation(f"{what} was never for it")
        reader.got.append(sent.uid)
        if reader.kind == "replay" and not sent.is_persistent:
            return
        lane = {"subscription": sent.place, "replay": 0}.get(reader.kind, sent.priority)
        if sent.uid < reader.last.get(lane, 0):
            raise Violation(f"{what} comes after {reader.last[lane]}")
        reader.last[lane] = sent.uid

    def _is_for(self, reader: Reader, sent: Sent) -> bool:
        return sent.place == reader.place and SELECTORS[reader.selector](sent)

    def _check_complete(self, reader: Reader) -> None:
        missing = [uid for uid in self._due_to(reader) if uid not in reader.got]
        if missing:
            raise Violation(f"the {reader.describe()} never got {missing[:10]}")

    def _due_to(self, reader: Reader) -> list[int]:
        """Return the messages that a reader must have when no work is left."""
        raise NotImplementedError

    def _rest(self) -> None:
        """Acknowledge everything until no work is left."""
        for _ in range(REST_TURNS):
            self.advance(1)
            self._look()
            held = [one for consumer in self.readers for one in consumer.ledger.values()]
            for one in held:
                self.broker.acknowledge(one)
            if not held and not self.is_more_to_come() and not self.chores():
                return
        raise Violation(f"there is no end to {self.chores()}")

    def _finish(self) -> None:
        for consumer in list(self.readers):
            self._close(consumer)
        for queue in self.queues():
            self.purge(queue)
        for _ in range(200):
            self.advance(1)
        left = {queue.uri(): queue.depth for queue in self.all_queues() if queue.depth}
        used = (self.memory_used(), self.memory_paged())
        if left or used != (0, 0) or self.chores() or self.feeds() or self.is_more_to_come() or self.join_count():
            raise Violation(f"everything is over, and yet: {left}, {used}, {self.chores()}, {self.feeds()}")


def uid_of(message: Message) -> int:
    return int(message.body.split()[0])
