"""Homes of stores: tests open, crash and open them again, with everything passed in."""

from __future__ import annotations

from abc import ABC, abstractmethod

from engine.broker import Broker
from engine.ports.store import Store
from engine.store.file_store import FileStore
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.message import PERSISTENT, PLAIN, STOMP, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import DestinationState, LaneState, Range
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.fakes import HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.left_behind import HOMES
from tests.support.store.memory_store import MemoryStore
from tests.support.store.store_world import Page, RecordingListener

UNLIMITED = 1 << 40
# Unneeded messages are past their retention at once, and full segments are checked each second.
THINNING = StoreSettings(
    segment_bytes=8192,
    retention_bytes=0,
    retention_interval_ms=1_000,
    compaction_live_percent=60,
    compaction_min_age_ms=0,
    compaction_interval_ms=1_000,
)


class Home(ABC):
    """The home of a store, which can be opened, crashed and opened again."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.workers = HeldWorkers()
        self.listener = RecordingListener()
        self.store = self.open()
        self.store.attach(self.listener)

    @abstractmethod
    def open(self) -> Store: ...

    @abstractmethod
    def crash(self) -> None:
        """Lose everything that is not durable."""

    def restart(self) -> None:
        self.crash()
        self.workers = HeldWorkers()
        self.listener = RecordingListener()
        self.store = self.open()
        self.store.attach(self.listener)

    def reopen(self) -> None:
        """Make everything durable, then restart."""
        self.flush()
        self.restart()

    def flush(self) -> None:
        self.store.write()
        if self.store.written_offset() < self.store.append_offset():
            self.timers.advance(0)  # a large message is written in several turns
        self.store.sync()
        self.workers.run_all()

    def settle(self, queue: int, first: int, count: int, size: int = 0) -> None:
        """Acknowledge a range of entries; ``size``: octets of each."""
        self.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, first, count, 0, size * count)])

    def settle_durably(self, queue: int, first: int, count: int, size: int = 0) -> None:
        self.settle(queue, first, count, size)
        self.flush()

    def page(self, destination_id: int, priority: int, first: int, count: int, limit_bytes: int = UNLIMITED) -> Page:
        self.store.request(destination_id, priority, first, count, limit_bytes)
        self.workers.run_all()
        assert self.listener.page_failures == []
        return self.listener.pages.pop()

    def seek(self, destination_id: int, what: int, value: int) -> dict[int, tuple[int, int]]:
        """Return priority -> (first entry, oldest kept entry)."""
        self.store.seek(destination_id, what, value, 7)
        self.workers.run_all()
        reader, _, places = self.listener.sought_places.pop()
        assert reader == 7 and self.listener.seek_failures == []
        return {place.priority: (place.first, place.kept) for place in places}


class FileHome(Home):
    """A store on a disk in memory; ``is_skipping`` counts for the next opening."""

    def __init__(self, settings: StoreSettings | None = None, seed: int = 1, files: FaultyFiles | None = None) -> None:
        """files: a disk on which a store may have been left."""
        self.files = files or FaultyFiles(seed)
        self.settings = settings or StoreSettings(segment_bytes=8192)
        self.is_skipping = False
        HOMES.append(self)
        super().__init__()

    def open(self) -> Store:
        self.file_store = FileStore(
            "data", self.files, self.workers, self.clock, self.timers, self.settings, self.is_skipping
        )
        return self.file_store

    def crash(self) -> None:
        self.files = self.files.crash()

    def kill(self) -> None:
        """Stop without closing anything; written octets are on the disk."""
        self.files = self.files.killed()
        self.begin()

    def stop(self) -> None:
        """Stop in order, so that the next start is a clean one."""
        self.workers.run_all()
        self.store.close()

    def begin(self) -> None:
        """Open the store anew."""
        self.timers = VirtualTimers(self.clock)
        self.workers = HeldWorkers()
        self.listener = RecordingListener()
        self.store = self.open()
        self.store.attach(self.listener)

    def send(self, destination_id: int, count: int, size: int = 100) -> list[Message]:
        """Append messages with bodies of their own."""
        messages = [message(destination_id, (b"%d " % number).ljust(size, b".")) for number in range(count)]
        for each in messages:
            self.store.append(each)
        return messages

    def send_durably(self, destination_id: int, count: int, size: int = 100) -> list[Message]:
        messages = self.send(destination_id, count, size)
        self.flush()
        return messages

    def pass_time(self, milliseconds: int) -> None:
        """Let timers fire, and workers do the resulting jobs."""
        self.timers.advance(milliseconds)
        self.workers.run_all()

    def pass_by(self, milliseconds: int) -> None:
        """Do the same in small steps, one after the other."""
        for _ in range(milliseconds // 100):
            self.pass_time(100)

    def live_on(self, broker: Broker, turns: int, turn_ms: int) -> None:
        """Let this many turns of the engine pass, and everything become durable."""
        for _ in range(turns):
            self.pass_time(turn_ms)
            broker.begin_turn()
            self.workers.run_all()
            broker.end_turn()
        broker.sync()
        self.workers.run_all()


class MemoryHome(Home):
    def __init__(self) -> None:
        self.last: MemoryStore | None = None
        super().__init__()

    def open(self) -> Store:
        if self.last is None:
            self.last = MemoryStore(self.workers, is_restartable=True)
        else:
            self.last = self.last.restarted(self.workers)
        return self.last

    def crash(self) -> None:
        pass


def message(destination_id: int, body: bytes = b"body", priority: int = 4) -> Message:
    return Message(destination_id, STOMP, PERSISTENT | PLAIN, priority, 11, 22, 33, b"why:this\n", b"a:b\n", body)


def lane(states: list[DestinationState], name: str, priority: int = 4) -> LaneState:
    (found,) = [lane for state in states if state.name == name for lane in state.lanes if lane.priority == priority]
    return found


def home_with_queue(settings: StoreSettings | None = None) -> tuple[FileHome, int]:
    """Return a home and its queue "orders"."""
    home = FileHome(settings)
    return home, home.store.open_destination(QUEUE, "orders")
