"""The log of a store that opens: recovered, and ready for records."""

from __future__ import annotations

from dataclasses import dataclass

from engine.store.context import StoreContext
from engine.store.disk.files import is_full
from engine.store.format import layout
from engine.store.log.checkpoint import CheckpointFile
from engine.store.log.commit_log import CommitLog
from engine.store.log.log_files import LogFiles
from engine.store.log.store_directory import LOG_DIRECTORY, QUEUE_DIRECTORY, RecoveryReport
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.recover.recovery import Recovery
from engine.store.state.consume_queue import Closing
from engine.values.destination import QUEUE
from engine.values.stored import DestinationState


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """destinations: as recovery found them.  closings: consume-queue entries that are not in the files yet."""

    report: RecoveryReport
    log: CommitLog
    checkpoint: CheckpointFile
    queue_files: ConsumeQueueFiles
    destinations: list[DestinationState]
    closings: list[Closing]


def open_log(context: StoreContext, is_skipping: bool) -> OpenedLog:
    """Recover the log of a locked directory, and publish where it continues.

    Raises: StoreCorrupt, OSError.
    """
    files, directory, now_ms = context.files, context.directory, context.clock.wall_ms()
    log_directory = f"{directory}/{LOG_DIRECTORY}"
    queue_files = ConsumeQueueFiles(files, f"{directory}/{QUEUE_DIRECTORY}", context.settings.whole_sync_files)
    checkpoint = CheckpointFile(files, directory)
    known = checkpoint.load()
    recovered = Recovery(files, log_directory, queue_files, context.store_id, checkpoint, known, is_skipping).run()
    report = recovered.report
    log_files = LogFiles(context, log_directory, recovered.segments)
    store_time_ms = max(recovered.store_time_ms, now_ms)
    log = CommitLog(log_files, recovered.state, recovered.end, recovered.sequence, store_time_ms)
    destinations = recovered.state.recovered()
    if not report.is_clean:
        log.begin_anew()
        _make_segment(log, log_files)
        for chunk in log.take_chunks():
            chunk.write()
            chunk.segment.sync(files)
    values = checkpoint.values
    values.durable_offset = log.end
    values.durable_time_ms = recovered.store_time_ms if report.is_clean else store_time_ms
    values.next_sequence = log.sequence
    values.consume_queue_offset = recovered.consume_queue_offset
    values.first_offset = log_files.segments[0].base
    if known is not None:
        values.start_count = known.start_count + 1
    else:
        # It must never repeat, and the number of starts is lost with the checkpoint.
        values.start_count = 1 if report.is_new else now_ms // 1000
    for name, version in layout.QUEUE_VERSIONS.items():
        if log.state.number_of(QUEUE, name):
            values.version = max(values.version, version)
    # Before anything is appended: a slot that says "clean" must not outlive the first record after it.
    checkpoint.begin()
    return OpenedLog(report, log, checkpoint, queue_files, destinations, recovered.closings + log.take_closings())


def _make_segment(log: CommitLog, log_files: LogFiles) -> None:
    """Make the file in which the log continues, as large as the disk has room for.  Raises: OSError."""
    segment = log_files.segments[-1]
    while True:
        try:
            log_files.put_on_disk(segment)
            return
        except OSError as error:
            if not is_full(error):
                raise
            if not log.shrink():
                needed = layout.SEGMENT_HEADER_BYTES + segment.capacity
                text = f"{error.strerror}; a new segment of the log needs {needed} octets at least"
                raise OSError(error.errno, text, segment.path()) from None
