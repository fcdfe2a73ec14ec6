"""Pauses queues: they accept messages and hand none over, until an operator resumes them or the gateway restarts.

Source: ActiveMQ, ``QueueViewMBean.pause`` and ``QueueDispatchSelector``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.clients.connections import Connections
from engine.consumers.client import Outlet
from engine.consumers.consumer import Consumer
from engine.consumers.turn_steps import Steps
from engine.sources.queue import Queue
from engine.sources.queue_rules import PauseBase
from engine.sources.registry import Destinations
from engine.values import gates
from engine.values.delivery import ConsumerBase

PARK_STEPS: Final = 1  # for a consumer that leaves the rotation


class _Room(Outlet):
    """Consumers of paused queues rest as if their output were full, so the dispatch of other queues asks nothing."""

    __slots__ = ()

    def output_gate(self) -> int:
        return gates.PAUSED


class Pause(PauseBase):
    """room: of its consumers, and of those of its views."""

    __slots__ = ("room",)

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.room = _Room()
        self.room.is_output_full = True

    def rest(self, consumer: ConsumerBase) -> None:
        assert isinstance(consumer, Consumer), "only consumers rest"
        self.room.rest(consumer)


@dataclass(slots=True, eq=False)
class Pauses:
    """Purges, retries, browsers and replays go on, and consumers settle what they hold."""

    _destinations: Destinations
    _connections: Connections
    _steps: Steps

    def pause(self, queue: Queue, by: str) -> None:
        """Hand nothing more to consumers of ``queue``.  by: who asks, in words."""
        if queue.extras.pause is not None:
            return
        pause = Pause(by)
        for one in self._destinations.readers.taken_from(queue):
            one.extras.pause = pause
            # Those in the rotation in its order, because each is then found at its front.
            for consumer in [*one.rotation, *one.consumers.values()]:
                if consumer.is_listed and consumer.is_ruled:
                    self._steps.left -= PARK_STEPS
                    one.unlist_one(consumer)
                    pause.rest(consumer)

    def resume(self, queue: Queue) -> None:
        """Let the consumers take turns again, some in each turn."""
        pause = queue.extras.pause
        if not isinstance(pause, Pause):
            return
        for one in self._destinations.readers.taken_from(queue):
            one.extras.pause = None
        self._connections.output_drained(pause.room)
