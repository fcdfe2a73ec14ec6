"""A run of the broker itself through a queue: a purge or a retry.

It is a consumer like any other: messages held by others are not affected, and a backlog is read in pages.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from engine.backlog.context import Context
from engine.clients.connections import Connections
from engine.clients.consumer_registry import Subscribing
from engine.consumers.client import Client
from engine.ports.timers import TimerTarget
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.options import SubscribeOptions

_IDLE: Final = frozenset((gates.NOTHING_WAITING, gates.SELECTOR, gates.DELAYED))


class QueueRun(Client):
    """is_done: it has ended, and its consumer is closed."""

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
        self._ticks = _Ticks(self)
        connections.connect(self)
        try:
            self.consumer = subscribing.subscribe_own(self, queue, options)
        except EngineError:
            connections.disconnect(self, is_lost=False)
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
        self.is_done = True
        self.connections.disconnect(self, is_lost=False)

    def release_confirmations(self, offset: int) -> bool:
        return False

    def admit(self) -> None:
        raise AssertionError("a run waits at no gate")

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        raise AssertionError("a run waits at no gate")


class _Ticks(TimerTarget):
    __slots__ = ("run",)

    def __init__(self, run: QueueRun) -> None:
        self.run = run

    def timer_fired(self, key: int) -> None:
        if not self.run.is_done:
            self.run.tick()
