"""Queues whose next message is not written yet: a large one takes several turns, or the disk fails."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.backlog.context import Context
from engine.consumers.turn_steps import Steps
from engine.sources.queue import Queue


@dataclass(slots=True, eq=False)
class UnwrittenQueues:
    """waiting: they get nothing more from the dispatcher until more of the log is written."""

    _context: Context
    _steps: Steps
    waiting: dict[Queue, None] = field(default_factory=dict)
    _since_offset: int = 0  # so much was written as the first of them began to wait

    def wait(self, queue: Queue) -> None:
        if not self.waiting:
            self._since_offset = self._context.store.written_offset()
            self._context.agenda.is_open = True
        self.waiting[queue] = None

    def go_on(self) -> None:
        """Have them dispatched if more was written meanwhile."""
        if self._context.store.written_offset() > self._since_offset:
            waiting = self.waiting
            self.waiting = {}
            for queue in waiting:
                self._steps.resume(queue)
