"""The context that most parts of the engine work with, given to each in its constructor."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.backlog.memory_budget import MemoryBudget
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.timers import Timers, TimerTarget
from engine.selector.properties import PropertyReaders
from engine.values.message import Message


@dataclass(slots=True, eq=False)
class TurnAgenda:
    """A part with work for the end of a turn opens the agenda; a turn without such work costs one test.

    is_open: some part may have work; ``Turn`` asks each of them, and shuts the agenda once none has any.
    """

    is_open: bool = False


@dataclass(slots=True, eq=False)
class Context:
    """The outside world, the memory budget and the facts of the current turn.

    readers: of message properties, one for each encoding.
    wall_ms: wall clock of this turn; it decides about expiry and due times, even after the clock was set back.
    store_time_ms: the same, but it never goes back.
    sender: number of the client whose input is being processed, 0 for the broker itself.
    agenda: other work than dirty queues for the end of this turn.
    """

    store: Store
    clock: Clock
    timers: Timers
    memory: MemoryBudget
    readers: PropertyReaders
    wall_ms: int = field(init=False)
    store_time_ms: int = field(init=False)
    sender: int = 0
    agenda: TurnAgenda = field(default_factory=TurnAgenda)
    _batch_depth: int = 0

    def __post_init__(self) -> None:
        self.wall_ms = self.clock.wall_ms()
        self.store_time_ms = self.wall_ms
        self.store.set_time(self.wall_ms)

    def set_time(self, wall_ms: int) -> None:
        """Set the time of a new turn."""
        self.wall_ms = wall_ms
        if wall_ms > self.store_time_ms:
            self.store_time_ms = wall_ms
            self.store.set_time(wall_ms)

    def call_later(self, wait_ms: int, target: TimerTarget, key: int) -> None:
        """Call ``target`` with ``key`` after ``wait_ms``."""
        self.timers.call_at(self.clock.monotonic_ms() + wait_ms, target, key)

    def message_id(self, message: Message) -> str:
        """Return JMSMessageID: the same on every redelivery and in every protocol."""
        if message.log_offset >= 0:
            return f"{self.readers.id_prefix}{message.log_offset}"
        return f"{self.readers.serial_prefix}{message.serial}"

    def begin_batch(self) -> None:
        """Open a batch that is recovered whole or not at all; an inner batch becomes part of it."""
        if self._batch_depth == 0:
            self.store.begin()
        self._batch_depth += 1

    def commit_batch(self) -> None:
        self._batch_depth -= 1
        if self._batch_depth == 0:
            self.store.commit()
