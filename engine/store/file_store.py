"""The embedded store: one commit log on disk, and everything derived from it."""

from __future__ import annotations

from typing import Final

from engine.ports.clock import Clock
from engine.ports.store import Store, StoreListener
from engine.ports.timers import Timers
from engine.ports.workers import READ_LANE, Workers
from engine.store.context import StoreContext
from engine.store.disk.files import File, Files, describe
from engine.store.format import layout
from engine.store.format.record_encoder import pack_runs
from engine.store.index.index_directory import IndexDirectory
from engine.store.index.key_index import KeyIndex
from engine.store.log.group_commit import GroupCommit
from engine.store.log.log_port import DurableLog
from engine.store.log.open_files import OpenFiles
from engine.store.log.store_directory import RecoveryReport, lock_directory, open_store_file
from engine.store.queues.entry_search import SeekJob
from engine.store.queues.entry_span import EntrySpan, ExpiredJob, entry_columns, written_end
from engine.store.queues.page_read import PageJob, Skipping
from engine.store.queues.queue_flush import ConsumeQueues
from engine.store.queues.start_read import messages_at_once
from engine.store.queues.subscription_release import Release
from engine.store.recover.live_rebuild import LiveRebuild
from engine.store.recover.opened_log import open_log
from engine.store.settings import ASYNC, StoreSettings
from engine.store.space.compaction import Compaction
from engine.store.space.retention import Retention
from engine.store.space.retention_rules import NoPolicies, RetentionPolicies, RetentionRules
from engine.store.space.segment_survey import first_tails
from engine.store.space.space_maker import StoreParts
from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.log_state import compact_json
from engine.values.destination import QUEUE
from engine.values.errors import StoreError
from engine.values.message import Message
from engine.values.message_keys import Keys
from engine.values.stored import DestinationState, EntryColumns, Range, RangeColumns, single_ranges

LANE_SHIFT: Final = layout.LANE_SHIFT
NOT_OPENED: Final = "the store cannot be opened"


class FileStore(Store):
    """A store in a directory.  Creating one opens it: it locks and recovers the directory and fills ``report``.

    Raises: StoreLocked, StoreCorrupt, StoreError.
    """

    __slots__ = (
        "report",
        "_context",
        "_is_async",
        "_skipping",
        "_lock",
        "_checkpoint",
        "_queues",
        "_log",
        "_lanes",
        "_commit",
        "_retention",
        "_compaction",
        "_release",
        "_index",
        "_open_files",
        "_recovered",
        "_listener",
        "_is_closed",
    )

    def __init__(
        self,
        directory: str,
        files: Files,
        workers: Workers,
        clock: Clock,
        timers: Timers,
        settings: StoreSettings,
        skip_corruption: bool = False,
        keys: Keys | None = None,
        policies: RetentionPolicies | None = None,
    ) -> None:
        self._is_async = settings.flush == ASYNC
        self._listener: StoreListener | None = None
        self._is_closed = False
        try:
            self._lock: File = lock_directory(files, directory)
        except OSError as error:
            raise StoreError(f"{describe(error, directory)}; {NOT_OPENED}") from error
        try:
            store_id = open_store_file(files, directory, clock.wall_ms())
            self._context = StoreContext(directory, store_id, files, workers, timers, clock, settings)
            self._open(skip_corruption, keys or Keys(), policies or NoPolicies())
        except OSError as error:
            self._lock.close()
            raise StoreError(f"{describe(error, str(error.filename or directory))}; {NOT_OPENED}") from error
        except StoreError:
            self._lock.close()
            raise

    def _open(self, is_skipping: bool, keys: Keys, policies: RetentionPolicies) -> None:
        context = self._context
        files, settings = context.files, context.settings
        opened = open_log(context, is_skipping)
        self.report: RecoveryReport = opened.report
        self._skipping = Skipping(is_skipping, opened.report)
        self._recovered = opened.destinations
        log = self._log = opened.log
        checkpoint = self._checkpoint = opened.checkpoint
        queue_files = opened.queue_files
        self._lanes: dict[int, ConsumeQueue] = log.state.lanes
        self._queues = ConsumeQueues(context, queue_files, log.state, checkpoint, opened.closings, log.end)
        self._commit: DurableLog = GroupCommit(context, log, checkpoint)
        self._commit.follow(self._queues)
        self._open_files = OpenFiles(files, settings.page_open_files)
        rules = RetentionRules(policies, log, context.clock, settings)
        parts = StoreParts(context, log, self._commit, checkpoint, queue_files, self._open_files, rules)
        self._retention = Retention(parts)
        self._compaction = Compaction(parts)
        self._release = Release(context, self, log.state, self._open_files, queue_files.root)
        self._index: KeyIndex | None = None
        if settings.index_slots:
            index = IndexDirectory(
                files, context.directory, context.store_id, settings.index_slots, settings.index_entries, keys
            )
            self._index = KeyIndex(context, index, log)
            self._index.log_durable(log.end)
            self._commit.follow(self._index)
        self._queues.log_durable(log.end)
        self._release.go_on()

    def store_id(self) -> str:
        return self._context.store_id

    def start_count(self) -> int:
        return self._checkpoint.values.start_count

    def attach(self, listener: StoreListener) -> None:
        self._listener = listener
        self._context.health.attach(listener)
        self._commit.attach(listener)

    def recovered(self) -> list[DestinationState]:
        return self._recovered

    def open_destination(self, kind: int, name: str) -> int:
        state = self._log.state
        number = state.number_of(kind, name)
        if number == 0:
            if kind == QUEUE and name in layout.QUEUE_VERSIONS:
                self._commit.require(layout.QUEUE_VERSIONS[name])
            number = state.next_destination
            described = {"id": number, "kind": kind, "name": name}
            self._log.append_record(layout.DESTINATION, number, compact_json(described).encode())
            state.add_destination(number, kind, name)
        return number

    def open_subscription(
        self, topic_id: int, name: str, description: dict[str, str], starts: dict[int, int] | None = None
    ) -> int:
        state = self._log.state
        lanes = state.destinations[topic_id].lanes
        places = [(lane.priority, lane.tail, lane.tail) for lane in lanes]
        if starts:
            # Entries dropped by retention are never settled: a subscription that began there would hold space for ever.
            kept = first_tails(self._context.files, self._log.files.segments)
            self._retention.start_over()
            for place, lane in enumerate(lanes):
                wanted = starts.get(lane.priority, lane.tail)
                first = max(wanted, kept.get((topic_id << LANE_SHIFT) | lane.priority, 0))
                places[place] = (lane.priority, min(first, lane.tail), lane.tail)
        number = state.next_destination
        described = {"id": number, "topic": topic_id, "name": name, "description": description, "starts": places}
        self._log.append_record(layout.SUBSCRIPTION, topic_id, compact_json(described).encode())
        state.add_subscription(number, topic_id, name, description, places)
        return number

    def close_destination(self, number: int) -> None:
        self._log.append_record(layout.CLOSE, number, compact_json({"id": number}).encode())
        self._log.state.close(number)
        self._release.go_on()

    def state_of(self, number: int) -> DestinationState:
        return self._log.state.state_of(number)

    def live_bytes(self, number: int) -> int:
        return self._log.state.live_bytes(number)

    def open_consumer(self, destination_id: int, description: dict[str, str]) -> int:
        state = self._log.state
        number = state.consumers.next_number
        described = compact_json({**description, "id": number, "destination": destination_id})
        self._log.append_record(layout.CONSUMER, destination_id, described.encode())
        state.consumers.add(number, described)
        return number

    def close_consumer(self, number: int) -> None:
        self._log.state.consumers.close(number)

    def consumer_description(self, number: int) -> dict[str, str]:
        return self._log.state.consumers.description(number)

    def set_time(self, wall_ms: int) -> None:
        if wall_ms > self._log.store_time_ms:
            self._log.store_time_ms = wall_ms

    def append(self, message: Message) -> None:
        lane = self._lanes.get((message.destination_id << LANE_SHIFT) | message.priority)
        if lane is None:
            lane = self._log.state.open_lane(message.destination_id, message.priority)
        self._log.append(message, lane)

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        log = self._log
        if len(ranges) == 1:
            settled = ranges[0]
            lane = self._lanes.get((destination_id << LANE_SHIFT) | settled.priority)
            if lane is not None and settled.delivery_count == 0:  # of a queue: what most turns need
                size_bytes = settled.size_bytes
                if type(settled) is not Range:
                    assert isinstance(settled, RangeColumns)
                    runs = pack_runs(settled.priority, settled.firsts, settled.counts)
                    count = len(settled.firsts)
                    fixed = layout.SETTLEMENT_FIXED.pack(0, consumer_id, outcome, cause, 0, count, size_bytes)
                    log.append_record(layout.SETTLEMENT, destination_id, fixed + runs)
                    if not lane.is_touched:
                        log.state.touch(lane)
                    lane.settle_runs(settled.firsts, settled.counts)
                else:
                    first, count = settled.first, settled.count
                    log.append_settlement(
                        destination_id, consumer_id, outcome, cause, settled.priority, first, count, size_bytes
                    )
                    if not lane.is_touched:
                        log.state.touch(lane)
                    if lane.failed is None:
                        lane.settled.add(first, count)
                    else:
                        lane.settle(first, count)
                lane.live_bytes -= size_bytes
                return
        state = log.state
        ranges = single_ranges(ranges)
        freed_bytes = state.freed_bytes(destination_id, ranges)
        log.append_ranges(layout.SETTLEMENT, destination_id, consumer_id, outcome, cause, freed_bytes, ranges)
        state.settle(destination_id, ranges, freed_bytes)

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        self._log.append_ranges(layout.ATTEMPTS, destination_id, consumer_id, 0, cause, due_ms, ranges)
        time_ms = self._log.store_time_ms
        self._log.state.fail_attempts(destination_id, consumer_id, cause, due_ms, time_ms, ranges)

    def begin(self) -> None:
        self._log.begin()

    def commit(self) -> None:
        self._log.commit()

    def write(self) -> None:
        self._commit.write()

    def sync(self) -> None:
        if self._is_async:
            self._commit.write()
        else:
            self._commit.sync()

    def append_offset(self) -> int:
        return self._log.end

    def written_offset(self) -> int:
        return self._commit.written

    def durable_offset(self) -> int:
        return self._commit.durable

    def confirmed_offset(self) -> int:
        return self._commit.written if self._is_async else self._commit.durable

    def is_accepting(self) -> bool:
        return self._context.health.is_good()

    def log_disk_bytes(self) -> int:
        return self._log.files.disk_bytes()

    def retention_reason(self) -> str:
        return self._retention.reason or self._release.reason or self._compaction.reason

    def retention_hold(self) -> str:
        return self._retention.rules.hold_reason()

    def request(
        self, destination_id: int, priority: int, first: int, count: int, limit_bytes: int, reader: int = 0
    ) -> None:
        assert self._listener is not None, "the answer needs a listener"
        lane = self._log.state.open_lane(destination_id, priority)
        start = max(first, lane.kept_first)
        end = min(first + count, lane.tail)
        if self._log.end != self._commit.written:
            end = written_end(lane, end, self._commit.written)
        span = EntrySpan(self._queues.files.root, lane, start, max(end, start))
        log_map = self._commit.map()
        job = PageJob(self._listener, self._open_files, log_map, span, first, limit_bytes, self._skipping, reader)
        self._context.workers.submit(job, READ_LANE)

    def look_for_expired(self, destination_id: int, priority: int, first: int, count: int, wall_ms: int) -> None:
        assert self._listener is not None, "the answer needs a listener"
        lane = self._log.state.open_lane(destination_id, priority)
        end = min(first + count, lane.tail)
        span = EntrySpan(self._queues.files.root, lane, min(max(first, lane.kept_first), end), end)
        self._context.workers.submit(ExpiredJob(self._listener, self._open_files, span, first, wall_ms), READ_LANE)

    def seek(self, destination_id: int, what: int, value: int, reader: int) -> None:
        assert self._listener is not None, "the answer needs a listener"
        lanes = self._log.state.destinations[destination_id].lanes
        log_start = self._commit.map().bases[0]
        root = self._queues.files.root
        job = SeekJob(self._listener, self._open_files, root, lanes, log_start, what, value, reader)
        self._context.workers.submit(job, READ_LANE)

    def entries(self, destination_id: int, priority: int, first: int, count: int) -> EntryColumns:
        lane = self._log.state.open_lane(destination_id, priority)
        span = EntrySpan(self._queues.files.root, lane, first, min(first + count, lane.tail))
        try:
            return entry_columns(first, span.read(self._open_files))
        except OSError as error:
            raise StoreError(describe(error, str(error.filename or self._context.directory))) from error

    def read_messages(self, destination_id: int, priority: int, first: int, count: int) -> list[Message]:
        lane = self._log.state.open_lane(destination_id, priority)
        end = min(first + count, lane.tail)
        log_map = self._commit.map()
        return messages_at_once(self._queues.files.root, lane, first, end, self._open_files, log_map, self._skipping)

    def rebuild_derived(self) -> LiveRebuild:
        """Start to rebuild consume queues and key index; workers do it in the background."""
        stop = self._checkpoint.values.consume_queue_offset
        files = self._queues.files
        return LiveRebuild(self._context, files, self._open_files, self._index, stop, self._commit.durable)

    def wind_down(self) -> None:
        """Start no more work that can be left to the next start, so that waiting for workers is short."""
        self._retention.close()
        self._compaction.close()
        self._release.close()
        self._queues.close()
        if self._index is not None:
            self._index.wind_down()

    def catch_up_index(self) -> None:
        """Bring the key index to the end of the log, however long that takes."""
        if self._index is not None:
            self._index.catch_up()

    def close(self) -> None:
        """Write, sync and release everything; call it once the workers have nothing left to run.

        Raises: StoreError if the disk refuses; what was confirmed is durable anyway.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self.wind_down()
        try:
            self._commit.close()
            if self._index is not None:
                self._index.close()
            self._checkpoint.publish(is_clean=True)
            self._checkpoint.sync()
        except OSError as error:
            raise StoreError(describe(error, self._context.directory)) from error
        finally:
            self._open_files.close()
            self._queues.files.close()
            self._log.files.close()
            self._checkpoint.close()
            self._lock.close()
