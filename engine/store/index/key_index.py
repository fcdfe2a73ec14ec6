"""The key index follows the log: a worker reads what has become durable and adds its keys to the files.

What was appended since the start is known by its offsets where it has keys; what is older is walked through.  On the
engine's thread that is one test of a flag a message, and a comparison a sync.  Nor does anything depend on it: what is
not in the index is found by reading the log, and an index that cannot be written only falls behind.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import Final

from engine.ports.clock import Clock
from engine.ports.timers import Timers
from engine.ports.workers import FILE_LANE, Job, Workers
from engine.store.disk.files import File, Files, describe, read_fully
from engine.store.format import layout
from engine.store.format.sparse_runs import NOT_THERE, Runs
from engine.store.index.index_file import (
    HEADER_BYTES,
    INDEX_DIRECTORY,
    IndexHeader,
    IndexWriter,
    file_begin,
    unpack_header,
)
from engine.store.log.commit_log import CommitLog
from engine.store.log.log_follower import LogFollower
from engine.store.log.segment import Segment, read_runs, records_limit
from engine.values.errors import StoreError
from engine.values.message import KEYED
from engine.values.message_keys import Keys

READ_BYTES: Final = 64 << 10  # of the log at a time, unless a record is larger; the engine's thread runs in between
JOB_BYTES: Final = 16 << 20  # of the log in one job: other work of the same worker gets its turn

JOB_RECORDS: Final = 20_000  # messages with keys in one job: as above
HEAD_READ_BYTES: Final = 1024  # of a message: its headers mostly end there
NOTED_MAX: Final = 500_000  # messages with keys that wait; beyond it they are looked for in the log again

RECORD_HEADER_BYTES: Final = layout.RECORD_HEADER_BYTES
MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
MESSAGE: Final = layout.MESSAGE
# What is needed of a record's header, and of a message's lengths behind it.
UNPACK_HEAD: Final = Struct("<I4xBB6xQ8xqII").unpack_from
HEAD_BYTES: Final = 48  # no record is shorter
SEGMENT_ENDS: Final = -1
DAMAGED: Final = -2


class LogMap:
    """Where records are to be read, as of one moment; ``limits``: where those of each segment end at the latest."""

    __slots__ = ("bases", "limits", "paths", "editions", "end")

    def __init__(self, segments: list[Segment]) -> None:
        self.bases = [segment.base for segment in segments]
        self.end = segments[-1].limit()
        self.limits = [records_limit(segments, place) for place in range(len(segments))]
        self.paths = [segment.path() for segment in segments]
        self.editions = [segment.edition for segment in segments]

    def next_base(self, place: int) -> int:
        """Return where the segment after ``place`` begins."""
        return self.bases[place + 1] if place + 1 < len(self.bases) else self.end


class KeyIndexFiles:
    """The files of one store's index, for one thread at a time.

    end: log offset up to which messages are in them, -1 before ``open``.
    """

    __slots__ = (
        "end",
        "_files",
        "_directory",
        "_store_id",
        "_slots",
        "_room",
        "_keys",
        "_writer",
        "_noted",
        "_file",
        "_file_path",
        "_file_edition",
        "_file_runs",
    )

    def __init__(self, files: Files, directory: str, store_id: str, slots: int, room: int, keys: Keys) -> None:
        self.end = -1
        self._files = files
        self._directory = f"{directory}/{INDEX_DIRECTORY}"
        self._store_id = store_id
        self._slots = slots
        self._room = room
        self._keys = keys
        self._writer: IndexWriter | None = None
        self._file: File | None = None  # the segment that was read last
        self._file_path = ""
        self._file_edition = 0
        self._file_runs: Runs | None = None
        self._noted = -1  # log offset of the last message that was added: a second attempt leaves it out

    def open(self, first: int, durable: int) -> None:
        """Find what is there; files that cannot be trusted, and all that follow a missing one, are removed.

        first: oldest log offset that is kept.
        """
        files = self._files
        files.make_directory(self._directory)
        end = -1
        last: tuple[str, IndexHeader] | None = None
        for name in files.list_directory(self._directory):
            begin = file_begin(name)
            if begin < 0:
                continue
            path = f"{self._directory}/{name}"
            header = self._header(path)
            is_next = begin <= first if last is None else begin == end and last[1].is_sealed
            if header is None or not is_next or not header.is_at_rest or header.end > durable:
                files.unlink(path)
            elif header.end <= first:
                files.unlink(path)  # of what retention has dropped
            else:
                end, last = header.end, (path, header)
        if last is not None and not last[1].is_sealed:
            self._writer = IndexWriter.reopen(files, *last)
        self.end = max(end, first)

    def _header(self, path: str) -> IndexHeader | None:
        file = self._files.open_to_read(path)
        try:
            size = file.size()
            header = unpack_header(read_fully(file, HEADER_BYTES, 0))
        finally:
            file.close()
        if header is None or header.store_id != self._store_id or header.slots != self._slots:
            return None
        return header if header.begin == file_begin(path.rpartition("/")[2]) and size >= header.file_bytes() else None

    def follow(self, log: LogMap, stop: int, known_from: int, noted: list[int]) -> None:
        """Add the keys of messages up to log offset ``stop``, which ends a record, or of some JOB_BYTES.

        noted: every message from log offset ``known_from`` on that may have keys; what is older is walked through.
        """
        if self._writer is None and self.end < stop:
            self._begin_file(log.bases[0])
        self._walk(log, min(stop, known_from))
        if self.end >= known_from:
            self._take_noted(log, stop, noted)
        if self._writer is not None:
            self._writer.end = self.end
            self._writer.save()

    def _take_noted(self, log: LogMap, stop: int, noted: list[int]) -> None:
        start = bisect_left(noted, self.end)
        wanted = noted[start : bisect_left(noted, stop)]
        for offset in wanted[:JOB_RECORDS]:
            place = bisect_right(log.bases, offset) - 1
            if place < 0:  # retention was faster
                self._leave_out(log.bases[0])
                continue
            if self._writer is None:
                self._begin_file(log.bases[0])
            self._take_one(log, place, offset)
        self.end = stop if len(wanted) <= JOB_RECORDS else max(self.end, wanted[JOB_RECORDS])

    def _take_one(self, log: LogMap, place: int, offset: int) -> None:
        path, edition = log.paths[place], log.editions[place]
        if self._file is None or self._file_path != path or self._file_edition != edition:
            self._close_file()
            self._file = self._files.open_to_read(path)
            self._file_path, self._file_edition = path, edition
            self._file_runs = read_runs(self._file, self._file_path)
        position = layout.SEGMENT_HEADER_BYTES + offset - log.bases[place]
        if self._file_runs is not None:
            position = self._file_runs.position(offset)
            if position == NOT_THERE:
                return
        octets = read_fully(self._file, HEAD_READ_BYTES, position)
        _, _, encoding, own, time_ms, before, headers = UNPACK_HEAD(octets.ljust(HEAD_BYTES, b"\0"))
        if own != offset:
            # It is damaged.  Who asks for a key then looks here himself, and is told.
            self.end = offset
            self._leave_out(offset + layout.ALIGNMENT)
            return
        start = MESSAGE_HEAD_BYTES + before
        if start + headers > len(octets):
            octets = read_fully(self._file, start + headers, position)
        keys = self._keys.of(encoding, octets[start : start + headers])
        if keys:
            self._add(offset, time_ms, keys, log.bases[0])

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _walk(self, log: LogMap, stop: int) -> None:
        enough = self.end + JOB_BYTES
        while self.end < min(stop, enough):
            place = bisect_right(log.bases, self.end) - 1
            if place < 0:  # retention was faster
                self._leave_out(log.bases[0])
            elif self.end >= log.limits[place]:
                self.end = min(log.next_base(place), stop)
            elif self._writer is None:
                self._begin_file(log.bases[0])
            else:
                self._follow_segment(log, place, min(log.limits[place], stop), enough)

    def _follow_segment(self, log: LogMap, place: int, limit: int, enough: int) -> None:
        file = self._files.open_to_read(log.paths[place])
        try:
            runs = read_runs(file, log.paths[place])
            if runs is None:
                dense = layout.SEGMENT_HEADER_BYTES - log.bases[place]
                self._follow_run(log, place, file, dense, limit, enough)
                return
            while self.end < min(limit, enough):
                start = runs.next_from(self.end)
                if start == NOT_THERE or start >= limit:
                    self.end = limit
                    return
                self.end = start
                end = min(runs.end_of(start), limit)
                if not self._follow_run(log, place, file, runs.position(start) - start, end, enough):
                    return
        finally:
            file.close()

    def _follow_run(self, log: LogMap, place: int, file: File, to_position: int, limit: int, enough: int) -> bool:
        """Go through records that follow each other up to ``limit``; return False after damage.

        to_position: what to add to a log offset.
        """
        wanted = READ_BYTES
        while self.end < min(limit, enough):
            size = min(wanted, limit - self.end)
            octets = read_fully(file, size, to_position + self.end)
            is_all = self.end + size == limit
            taken = self._take(octets, log.bases[0])
            if taken == DAMAGED:
                self._leave_out(log.next_base(place))
                return False
            if taken == SEGMENT_ENDS or is_all:
                self.end = limit
                return True
            wanted = READ_BYTES if taken else 2 * wanted
        return True

    def _take(self, octets: bytes, first: int) -> int:
        """Add the keys of the whole records in ``octets``, go on behind them; return how many octets these are."""
        start = self.end
        at = 0
        length = len(octets)
        found: list[tuple[int, int, list[str]]] = []
        is_over = False
        may_be_in = self._keys.may_be_in
        while at + HEAD_BYTES <= length:
            size, record_type, encoding, offset, time_ms, before, headers = UNPACK_HEAD(octets, at)
            if size == 0:
                is_over = True
                break
            if size < RECORD_HEADER_BYTES or offset != start + at:
                return DAMAGED
            if at + size > length:
                break
            if record_type == MESSAGE:
                headers_at = at + MESSAGE_HEAD_BYTES + before
                if may_be_in(encoding, octets, headers_at, headers_at + headers):
                    keys = self._keys.of(encoding, octets[headers_at : headers_at + headers])
                    if keys:
                        found.append((offset, time_ms, keys))
            at += (size + 7) & ~7
        for offset, time_ms, keys in found:
            self._add(offset, time_ms, keys, first)
        self.end = start + min(at, length)
        return SEGMENT_ENDS if is_over else at

    def _add(self, offset: int, time_ms: int, keys: list[str], first: int) -> None:
        if offset <= self._noted:
            return
        writer = self._writer
        assert writer is not None, "a file is begun before anything is read"
        if writer.is_full():
            self.end = offset
            self._seal()
            writer = self._begin_file(first)
        for key in keys:
            writer.add(key, offset, time_ms)
        self._noted = offset

    def _leave_out(self, offset: int) -> None:
        """Go on at ``offset``; what stands between is in no file."""
        self._seal()
        self.end = offset

    def _seal(self) -> None:
        writer = self._writer
        if writer is not None:
            writer.end = self.end
            try:
                writer.rest(is_sealed=True)
            except OSError:
                self._discard(writer)
                raise
            writer.close()
            self._writer = None

    def _discard(self, writer: IndexWriter) -> None:
        """Make a file again: what a failed sync was to write may be gone although the next one succeeds."""
        writer.close()
        self._writer = None
        self.end = writer.begin
        self._noted = writer.begin - 1
        self._files.unlink(writer.path)

    def _begin_file(self, first: int) -> IndexWriter:
        self._drop_below(first)
        self._writer = IndexWriter.create(
            self._files, self._directory, self.end, self._slots, self._room, self._store_id
        )
        return self._writer

    def _drop_below(self, first: int) -> None:
        """Remove the files of what retention has dropped."""
        names = [name for name in self._files.list_directory(self._directory) if file_begin(name) >= 0]
        for name, following in pairwise(names):
            if file_begin(following) <= first:
                self._files.unlink(f"{self._directory}/{name}")

    def begin_anew(self) -> None:
        """Remove every file; what comes next opens the index again, and finds nothing."""
        self._close_file()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for name in self._files.list_directory(self._directory):
            if file_begin(name) >= 0:
                self._files.unlink(f"{self._directory}/{name}")
        self.end = -1
        self._noted = -1

    def close(self) -> None:
        """Bring everything to the disk, so that the next start goes on from here."""
        self._close_file()
        writer = self._writer
        if writer is not None:
            try:
                writer.rest(is_sealed=False)
            finally:
                writer.close()
                self._writer = None


class KeyIndex(LogFollower):
    """Has a worker go on a while after something became durable.

    reason: why the disk refused the last attempt, "" if it did not.
    """

    __slots__ = (
        "reason",
        "_index",
        "_log",
        "_map",
        "_edition",
        "_workers",
        "_timers",
        "_clock",
        "_interval_ms",
        "_durable",
        "_known_from",
        "_noted",
        "_is_waiting",
        "_is_closed",
    )

    def __init__(
        self,
        index: KeyIndexFiles,
        log: CommitLog,
        workers: Workers,
        timers: Timers,
        clock: Clock,
        interval_ms: int,
    ) -> None:
        self.reason = ""
        self._index = index
        self._log = log
        self._map = LogMap(log.segments)
        self._edition = log.edition
        self._workers = workers
        self._timers = timers
        self._clock = clock
        self._interval_ms = interval_ms
        self._durable = 0
        self._known_from = log.end
        self._noted: list[int] = []
        log.noted_flags = KEYED
        self._is_waiting = False  # for a timer or a job
        self._is_closed = False
        # At once: as long as the directory is held, readers take a file that grows for a sound one.
        try:
            index.open(log.segments[0].base, log.end)
        except OSError as error:
            self.reason = describe(error, INDEX_DIRECTORY)

    def log_durable(self, offset: int) -> None:
        """Note how far the log is durable; a worker takes it from here."""
        self._durable = offset
        if not self._is_waiting:
            self._wait()

    def _wait(self) -> None:
        self._is_waiting = True
        self._timers.call_at(self._clock.monotonic_ms() + self._interval_ms, self, 0)

    def timer_fired(self, key: int) -> None:
        if not self._is_closed:
            self._workers.submit(self._job(self._durable), FILE_LANE)

    def _job(self, stop: int) -> IndexJob:
        log = self._log
        self._noted += log.noted
        log.noted.clear()
        if len(self._noted) > NOTED_MAX:
            self._noted = []
            self._known_from = log.end
        return IndexJob(self, self._index, self._log_map(), stop, self._known_from, self._noted)

    def _log_map(self) -> LogMap:
        if self._edition != self._log.edition:
            self._map = LogMap(self._log.segments)
            self._edition = self._log.edition
        return self._map

    def followed(self, reason: str) -> None:
        """Take the outcome of a job."""
        self.reason = reason
        self._is_waiting = False
        del self._noted[: bisect_left(self._noted, self._index.end)]
        # A file that has to be made again begins below: then the log is walked through up to here.
        self._known_from = max(self._known_from, self._index.end)
        if not self._is_closed and self._index.end < self._durable:
            self._wait()

    def begin_anew(self) -> None:
        """Have all files removed and made again: all that was appended so far is walked through."""
        self._noted = []
        self._log.noted.clear()
        self._known_from = self._log.end
        self._workers.submit(AnewJob(self, self._index), FILE_LANE)

    def began_anew(self, reason: str) -> None:
        """Go on from the beginning."""
        self.reason = reason
        self.log_durable(self._durable)

    def has_reached(self, offset: int) -> bool:
        """Say whether messages up to a log offset are in the index, or the disk keeps them from it."""
        return self._index.end >= offset or bool(self.reason)

    def wind_down(self) -> None:
        """Give workers no more to do."""
        self._is_closed = True

    def catch_up(self) -> None:
        """Go on to the end of the log, or to where the disk refuses."""
        while self._index.end < self._log.end and not self.reason:
            job = self._job(self._log.end)
            job.run()
            job.finish()

    def close(self) -> None:
        """Go on to the end, or some way towards it, and bring the files to the disk."""
        self._job(self._log.end).run()
        try:
            self._index.close()
        except OSError:
            pass  # a file that is not at rest is removed by the next start, and made again


class IndexJob(Job):
    """Brings the index up to an offset, or some way towards it."""

    __slots__ = ("_owner", "_index", "_log", "_stop", "_known_from", "_noted", "_reason")

    def __init__(
        self, owner: KeyIndex, index: KeyIndexFiles, log: LogMap, stop: int, known_from: int, noted: list[int]
    ) -> None:
        self._owner = owner
        self._index = index
        self._log = log
        self._stop = stop
        self._known_from = known_from
        self._noted = noted  # changed by nobody until the job is finished
        self._reason = ""

    def run(self) -> None:
        try:
            if self._index.end < 0:
                self._index.open(self._log.bases[0], self._stop)
            self._index.follow(self._log, self._stop, self._known_from, self._noted)
        except OSError as error:
            self._reason = describe(error, str(error.filename or INDEX_DIRECTORY))
        except StoreError as error:
            self._reason = str(error)

    def finish(self) -> None:
        self._owner.followed(self._reason)


class AnewJob(Job):
    """Removes the files of the index."""

    __slots__ = ("_owner", "_index", "_reason")

    def __init__(self, owner: KeyIndex, index: KeyIndexFiles) -> None:
        self._owner = owner
        self._index = index
        self._reason = ""

    def run(self) -> None:
        try:
            self._index.begin_anew()
        except OSError as error:
            self._reason = describe(error, str(error.filename or INDEX_DIRECTORY))

    def finish(self) -> None:
        self._owner.began_anew(self._reason)
