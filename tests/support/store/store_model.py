"""A model of a store: numbered entries, sets of settled ones, and steps that change them."""

from __future__ import annotations

from dataclasses import dataclass, field


class ProgressModel:
    """The entries of one lane that a queue or a subscription has settled, as a set of numbers."""

    def __init__(self, first: int = 0, counted_from: int = 0) -> None:
        self.settled: set[int] = set(range(first))
        self.counted_from = counted_from
        self.attempts: dict[int, tuple[int, int]] = {}


class LaneModel:
    """One consume queue: the messages that were ever in it."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, int]] = []  # body and size

    def tail(self) -> int:
        return len(self.messages)


class HolderModel:
    """A queue, or a durable subscription of the topic ``source``: its progress by priority."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lanes: dict[int, ProgressModel] = {}

    def lane(self, priority: int) -> ProgressModel:
        return self.lanes.setdefault(priority, ProgressModel())


class Model:
    """lanes: by name of the destination and priority.  holders: queues and subscriptions by their names."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.lanes: dict[str, dict[int, LaneModel]] = {}
        self.holders: dict[str, HolderModel] = {}

    def lane(self, name: str, priority: int) -> LaneModel:
        return self.lanes[name].setdefault(priority, LaneModel())

    def pending(self, holder: str, priority: int) -> list[int]:
        """Return the entries that a queue or a subscription has not settled."""
        model = self.holders[holder]
        lane = self.lane(model.source, priority)
        return sorted(set(range(lane.tail())) - model.lane(priority).settled)

    def places(self) -> list[tuple[str, int]]:
        """Return (queue or subscription, priority) of those with pending entries."""
        return [
            (name, priority)
            for name, holder in sorted(self.holders.items())
            for priority in sorted(self.lanes[holder.source])
            if self.pending(name, priority)
        ]

    def live_bytes(self, name: str) -> int:
        """Return the size of the messages that a queue, or any subscription of a topic, has not settled."""
        holders = [holder for holder in self.holders.values() if holder.source == name]
        return sum(
            size
            for priority, lane in self.lanes[name].items()
            for entry, (_, size) in enumerate(lane.messages)
            if any(
                entry >= holder.lane(priority).counted_from and entry not in holder.lane(priority).settled
                for holder in holders
            )
        )


class Operation:
    """One change that a record makes."""

    def apply(self, model: Model) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Opened(Operation):
    """starts: of a subscription: (first entry, tail) by priority."""

    name: str
    number: int
    source: str
    is_topic: bool = False
    starts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def apply(self, model: Model) -> None:
        model.numbers[self.name] = self.number
        if self.source == self.name:
            model.lanes[self.name] = {}
        if not self.is_topic:
            holder = model.holders[self.name] = HolderModel(self.source)
            for priority, (first, tail) in self.starts.items():
                holder.lanes[priority] = ProgressModel(first, tail)


@dataclass(frozen=True, slots=True)
class Closed(Operation):
    name: str

    def apply(self, model: Model) -> None:
        names = [self.name, *(name for name, holder in model.holders.items() if holder.source == self.name)]
        for name in dict.fromkeys(names):
            del model.numbers[name]
            model.lanes.pop(name, None)
            model.holders.pop(name, None)


@dataclass(frozen=True, slots=True)
class Appended(Operation):
    name: str
    priority: int
    queue_offset: int
    body: bytes
    size: int

    def apply(self, model: Model) -> None:
        lane = model.lane(self.name, self.priority)
        assert self.queue_offset == lane.tail(), "entries of a queue are numbered without gaps"
        lane.messages.append((self.body, self.size))


@dataclass(frozen=True, slots=True)
class Settled(Operation):
    holder: str
    priority: int
    first: int
    count: int

    def apply(self, model: Model) -> None:
        progress = model.holders[self.holder].lane(self.priority)
        for entry in range(self.first, self.first + self.count):
            progress.settled.add(entry)
            progress.attempts.pop(entry, None)


@dataclass(frozen=True, slots=True)
class Failed(Operation):
    holder: str
    priority: int
    entry: int
    delivery_count: int
    due_ms: int

    def apply(self, model: Model) -> None:
        model.holders[self.holder].lane(self.priority).attempts[self.entry] = (self.delivery_count, self.due_ms)


class Step:
    """One record, or all of a transaction; ``end``: the log offset just past it."""

    def __init__(self) -> None:
        self.end = 0
        self.operations: list[Operation] = []

    def apply(self, model: Model) -> None:
        for operation in self.operations:
            operation.apply(model)
