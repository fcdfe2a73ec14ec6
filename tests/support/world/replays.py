"""The laws of replays: they show all messages of a destination that the log keeps, in its order, from their start.

``LogBook`` notes every message that the store gets, and forgets those lost in a stop.  A replay may leave out messages
that retention or compaction has dropped meanwhile, and expired ones, and nothing else.  The other laws show that it
disturbs nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from engine.store.log.segment import Segment
from engine.values.message import Message
from engine.values.options import FIRST, LAST, NEXT, ReplayStart
from tests.support.world.bodies import Violation

PLACES: Final = (FIRST, FIRST, LAST, NEXT)


@dataclass(frozen=True, slots=True)
class Logged:
    """One message of the log.  unit: of the recording store, as find_prefix counts them; -1 from former starts."""

    uid: int
    priority: int
    queue_offset: int
    log_offset: int
    time_ms: int
    unit: int


class LogBook:
    """Messages by the number of their destination, in the order of the log."""

    def __init__(self) -> None:
        self._entries: dict[int, list[Logged]] = {}

    def of(self, destination_id: int) -> list[Logged]:
        return self._entries.setdefault(destination_id, [])

    def appended(self, message: Message, uid: int, unit: int) -> None:
        entry = Logged(uid, message.priority, message.queue_offset, message.log_offset, message.store_time_ms, unit)
        self.of(message.destination_id).append(entry)

    def cut(self, unit_count: int) -> None:
        """Forget everything after the units that a restart has found."""
        for destination_id, entries in self._entries.items():
            self._entries[destination_id] = [
                Logged(one.uid, one.priority, one.queue_offset, one.log_offset, one.time_ms, -1)
                for one in entries
                if one.unit < unit_count
            ]

    def tails(self, destination_id: int) -> dict[int, int]:
        """Return the number of entries by priority."""
        return {one.priority: one.queue_offset + 1 for one in self.of(destination_id)}


class KeptLog:
    """The part of the log that is still there: the store's segments."""

    def __init__(self, segments: Callable[[], list[Segment]]) -> None:
        self._segments = segments

    def is_dropped(self, log_offset: int) -> bool:
        """Say whether retention has dropped it."""
        return log_offset < self._segments()[0].base

    def is_kept(self, log_offset: int) -> bool:
        """Say whether it is certainly there: a sparse segment may lack some messages."""
        found = [segment for segment in self._segments() if segment.base <= log_offset]
        return bool(found) and not found[-1].is_sparse


@dataclass(slots=True, eq=False)
class Replay:
    """One replay as its client asked for it, and its progress.

    wanted are entries from ``from_offset`` of the log and ``from_ms`` on, and of each priority from ``from_entry`` on.
    is_strict: a start that is gone is refused.  has_expired: returns whether a message may be left out.
    next: the place after the last shown message.
    """

    start: ReplayStart
    entries: list[Logged]
    kept: KeptLog
    has_expired: Callable[[int], bool]
    from_offset: int = 0
    from_ms: int = 0
    from_entry: dict[int, int] = field(default_factory=dict)
    entry_otherwise: int = 0
    next: int = 0
    was_gone: bool = False
    unlogged: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.was_gone = self.is_strict() and self._is_gone()

    def is_strict(self) -> bool:
        return not self.start.is_lenient and (self.start.entry is not None or bool(self.start.message_id))

    def wants(self, entry: Logged) -> bool:
        first = self.from_entry.get(entry.priority, self.entry_otherwise)
        return entry.log_offset >= self.from_offset and entry.time_ms >= self.from_ms and entry.queue_offset >= first

    def lacking(self, until: int) -> list[int]:
        """Return the messages before place ``until`` that must be shown and were not."""
        return [
            one.uid
            for one in self.entries[self.next : until]
            if self.wants(one) and self.kept.is_kept(one.log_offset) and not self.has_expired(one.uid)
        ]

    def is_done(self) -> bool:
        return not self.lacking(len(self.entries))

    def shown(self, uid: int, is_unlogged: bool) -> None:
        """Check a message that was shown to a client.  Raises: Violation."""
        what = f"a replay from {self.start} shows message {uid}"
        if self.was_gone:
            raise Violation(f"{what}, though what it began with was gone")
        if is_unlogged:
            if uid in self.unlogged:
                raise Violation(f"{what} twice")
            self.unlogged.add(uid)
            return
        places = [place for place, one in enumerate(self.entries) if one.uid == uid]
        if not places:
            raise Violation(f"{what}, which is not in the log of its destination")
        (place,) = places
        if place < self.next:
            raise Violation(f"{what} after later ones, or twice")
        if not self.wants(self.entries[place]):
            raise Violation(f"{what}, which comes before its start")
        lacking = self.lacking(place)
        if lacking:
            raise Violation(f"{what} and leaves out {lacking[:10]}, which are in the log before it")
        self.next = place + 1

    def refused(self) -> None:
        """Check a refusal because the start of the replay is gone.  Raises: Violation."""
        if not self.is_strict() or not self._is_gone():
            raise Violation(f"a replay from {self.start} is refused, though all of it is kept")

    def _is_gone(self) -> bool:
        return any(self.wants(one) and self.kept.is_dropped(one.log_offset) for one in self.entries)


def draw_replay(
    chance: Random,
    entries: list[Logged],
    tails: dict[int, int],
    id_prefix: str,
    wall_ms: int,
    kept: KeptLog,
    has_expired: Callable[[int], bool],
    may_be_refused: bool,
) -> Replay:
    """Return a replay with a start that the seed chooses."""
    how = chance.choice(("place", "place", "entry", "time", "id" if may_be_refused else "time"))
    if how == "id" and entries:
        offset = chance.choice(entries).log_offset
        return Replay(ReplayStart(message_id=f"{id_prefix}{offset}"), entries, kept, has_expired, from_offset=offset)
    if how == "time":
        time_ms = chance.choice(entries).time_ms if entries and chance.random() < 0.8 else wall_ms
        time_ms += chance.choice((-1, 0, 0, 1, 500))
        return Replay(ReplayStart(time_ms=time_ms), entries, kept, has_expired, from_ms=time_ms)
    if how == "entry":
        entry = chance.randint(0, max(tails.values(), default=0) + 2)
        start = ReplayStart(entry=entry, is_lenient=not may_be_refused or chance.random() < 0.5)
        return Replay(start, entries, kept, has_expired, entry_otherwise=entry)
    place = chance.choice(PLACES)
    back = {FIRST: None, LAST: 1, NEXT: 0}[place]
    from_entry = {} if back is None else {priority: tail - back for priority, tail in tails.items()}
    return Replay(ReplayStart(place), entries, kept, has_expired, from_entry=from_entry)


def stomp_headers(start: ReplayStart) -> list[tuple[str, str]]:
    """Return the STOMP header for the start of a replay."""
    if start.message_id:
        return [("from-id", start.message_id)]
    if start.time_ms is not None:
        return [("from-time", str(start.time_ms))]
    if start.entry is not None:
        return [("x-stream-offset", f"offset={start.entry}") if start.is_lenient else ("from-offset", str(start.entry))]
    return [("from-offset", start.place)]
