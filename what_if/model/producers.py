"""A simulated producer: sends the messages of one destination in their order, and waits at its gates."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.sources.composite import Target
from engine.values import gates
from engine.values.delivery import Delivery
from engine.values.errors import AddressFull, EngineError
from engine.values.message import Message
from what_if.figures import Figures

if TYPE_CHECKING:
    from what_if.model.simulation import Simulation


class Producer(Client):
    """Of one destination.  waiting: what its gate holds back.  since_ms: when that began."""

    __slots__ = ("simulation", "destination", "figures", "waiting", "since_ms")

    def __init__(self, simulation: Simulation, destination: Target, figures: list[Figures]) -> None:
        super().__init__()
        self.simulation = simulation
        self.destination = destination
        self.figures = figures
        self.waiting: deque[Message] = deque()
        self.since_ms = 0

    def send(self, message: Message) -> None:
        """Send a message now, or once those before it have been sent."""
        if self.waiting:
            self.waiting.append(message)
        elif not self._sends(message):
            self.since_ms = self.simulation.clock.now_ms
            self.waiting.append(message)

    def end(self) -> None:
        """Count the time until the end of the simulation, and what a full address has discarded."""
        account = self.destination.account
        if account is not None:
            for figures in self.figures:
                figures.dropped += account.dropped_count
        if self.waiting:
            self._count_blocked()

    def admit(self) -> None:
        while self.waiting:
            if not self._sends(self.waiting[0]):
                return
            self.waiting.popleft()
        self._count_blocked()

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        self.waiting.popleft()
        self._count_refused()
        if not self.waiting:
            self._count_blocked()
        else:
            self.admit()

    def _sends(self, message: Message) -> bool:
        """Send it and return True; park it at its gate and return False."""
        broker = self.simulation.broker
        try:
            gate = broker.send(self.destination, message)
        except AddressFull:
            self._count_refused()
            return True
        if gate == gates.OPEN:
            return True
        broker.producer_gates.waits.park(self, gate, self.destination)
        return False

    def _count_refused(self) -> None:
        for figures in self.figures:
            figures.refused += 1

    def _count_blocked(self) -> None:
        blocked_ms = self.simulation.clock.now_ms - self.since_ms
        for figures in self.figures:
            figures.blocked_ms += blocked_ms

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        raise AssertionError("a producer receives nothing")

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        raise AssertionError("a producer receives nothing")

    def release_confirmations(self, offset: int) -> bool:
        return False

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        raise AssertionError("a producer receives nothing")

    def describe(self) -> dict[str, str]:
        return {"address": "simulation"}
