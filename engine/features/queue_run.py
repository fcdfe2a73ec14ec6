"""A run of the broker itself through a queue: a purge or a retry.

It is a consumer: messages held by others are not affected, and a backlog is read in pages.  Unlike others it takes
what waits for an exclusive consumer or for the owner of a message group.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.clients.connections import Connections
from engine.clients.consumer_registry import Subscribing
from engine.consumers.client import Client
from engine.consumers.turn_steps import Chore, Steps
from engine.ports.timers import TimerTarget
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.options import SubscribeOptions

TICK_STEPS: Final = 8  # its end included

_IDLE: Final = frozenset(
    (gates.NOTHING_WAITING, gates.SELECTOR, gates.GROUP_OWNER, gates.DELAYED, gates.CONSUMERS_BEFORE_DISPATCH)
)


class QueueRun(Client):
    """is_done: it has ended, and its consumer is closed."""

    __deletable__ = ("consumer", "_ticks")
    __slots__ = ("context", "connections", "queue", "is_done", "consumer", "_ticks")

    def __init__(
        self,
        context: Context,
        connections: Connections,
        subscribing: Subscribing,
        queue: Queue,
        options: SubscribeOptions,
    ) -> None:
        """The caller starts its consumer.  Raises: InvalidSelector, LimitReached."""
        super().__init__()
        self.context = context
        self.connections = connections
        self.queue = queue
        self.is_done = False
        self._ticks = _Ticks(_Tick(self), subscribing.steps)
        connections.connect(self)
        try:
            self.consumer = subscribing.subscribe_own(self, queue, options)
        except EngineError:
            connections.disconnect(self, is_lost=False)
            del self._ticks
            raise

    @abstractmethod
    def tick(self) -> None:
        """Do the work of one tick, and ``call_again`` unless it ends."""

    def call_again(self, pause_ms: int) -> None:
        self.context.call_later(pause_ms, self._ticks, 0)

    def is_idle(self) -> bool:
        """Say whether nothing more will come."""
        return self.consumer.gate() in _IDLE

    def end(self) -> None:
        """Take nothing more, and return what it holds to its place."""
        if not self.is_done:
            self.is_done = True
            self.connections.disconnect(self, is_lost=False)
            del self.consumer, self._ticks  # they know it, and would wait for Python's collector with it

    def release_confirmations(self, offset: int) -> bool:
        return False

    def admit(self) -> None:
        raise AssertionError("a run waits at no gate")

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        raise AssertionError("a run waits at no gate")


@dataclass(slots=True, eq=False)
class _Ticks(TimerTarget):
    """Runs may have begun in thousands of queues at once, so each tick is a chore."""

    _tick: _Tick
    _steps: Steps

    def timer_fired(self, key: int) -> None:
        self._steps.take_up(self._tick)


@dataclass(slots=True, eq=False)
class _Tick(Chore):
    _run: QueueRun

    def go_on(self, steps: Steps) -> bool:
        if steps.left <= 0:
            return False
        steps.left -= TICK_STEPS
        if not self._run.is_done:
            self._run.tick()
        return True
