"""Checks whether the log's records, snapshots and messages agree."""

from __future__ import annotations

import json
from array import array
from typing import Any, Final

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.destination import LoggedDestination
from engine.store.state.log_state import StoreState
from engine.store.state.snapshot import encode_snapshot, load_snapshot
from engine.store.verify.findings import Note
from engine.store.verify.index_check import IndexCheck
from engine.values.outcomes import OUTCOME_NAMES
from engine.values.stored import Range

GONE: Final = 0xFFFFFFFF  # the size of a removed message
METADATA: Final = (layout.DESTINATION, layout.SUBSCRIPTION, layout.CLOSE, layout.CONSUMER, layout.SNAPSHOT)


class StateCheck:
    """state: according to the records so far.  message_count: messages applied.

    is_sparse: of the current segment.  has_gaps: from a sparse segment to the next snapshot, which must be trusted,
    records may name removed messages.
    _index: gets each message.  _sizes: the messages of each lane: first known entry, and sizes from there on.
    """

    def __init__(self, directory: str, index: IndexCheck, note: Note) -> None:
        self.state = StoreState()
        self.message_count = 0
        self.is_sparse = False
        self.has_gaps = False
        self._index = index
        self._directory = directory
        self._note = note
        self._sizes: dict[int, tuple[int, array[int]]] = {}
        self._is_empty = True  # only the first snapshot says what was before it

    def apply(self, record: Record) -> None:
        """Apply a valid record.  Raises: KeyError, TypeError, ValueError, AssertionError, struct.error."""
        if record.type == layout.MESSAGE:
            self._apply_message(record)
            return
        if record.type in (layout.SETTLEMENT, layout.ATTEMPTS):
            self._apply_ranges(record)
        elif record.type in METADATA:
            self._apply_metadata(record, record.described())
        elif record.type != layout.COMMIT:
            raise ValueError("an unknown type")
        self.state.system.list_record(record)

    def _apply_message(self, record: Record) -> None:
        message = record.message()
        priority, queue_offset, size = message.priority, message.queue_offset, message.size()
        if layout.MESSAGE_HEAD_BYTES + size != record.size:
            raise ValueError(f"parts of {size} octets in a record of {record.size}")
        if record.destination_id not in self.state.destinations:
            raise ValueError(f"destination {record.destination_id} is not known")
        lane = self.state.open_lane(record.destination_id, priority)
        if self.is_sparse and queue_offset > lane.tail:
            self._leave_out(lane, queue_offset)
        if queue_offset != lane.tail:
            raise ValueError(f"entry {queue_offset} of a lane of {lane.tail}")
        key = (record.destination_id << layout.LANE_SHIFT) | priority
        self._sizes.setdefault(key, (queue_offset, array("I")))[1].append(size)
        lane.add_record(record, message.tag_hash, message.group_hash, message.expires_ms)
        self._index.message(record.offset, record.store_time_ms, record.encoding, record.flags, message.headers())
        lane.live_bytes += size
        self.message_count += 1

    def _apply_ranges(self, record: Record) -> None:
        said = record.settlement()
        ranges = [Range(*each) for each in said.ranges]
        number = record.destination_id
        subscription = self.state.subscriptions.get(number)
        owner = number if subscription is None else subscription.topic_id
        if self.has_gaps and owner not in self.state.destinations:
            return  # of a closed subscription, which seems to have kept nothing: its messages were taken out
        for each in ranges:
            lane = self.state.open_lane(owner, each.priority)
            progress = lane if subscription is None else subscription.lane(each.priority)
            if self.has_gaps:
                continue
            if not each.count or each.first + each.count > lane.tail:
                raise ValueError(f"entries {each.first} to {each.first + each.count} of a lane of {lane.tail}")
            if any(progress.settled.contains(entry) for entry in range(each.first, each.first + each.count)):
                raise ValueError(f"entries {each.first} to {each.first + each.count} were settled before")
        if record.type == layout.ATTEMPTS:
            due_ms, time_ms = said.due_or_freed, record.store_time_ms
            self.state.fail_attempts(number, said.consumer_id, said.cause, due_ms, time_ms, ranges)
            return
        if said.outcome not in OUTCOME_NAMES:
            raise ValueError(f"outcome {said.outcome}")
        self.state.settle(number, ranges, said.due_or_freed)

    def _apply_metadata(self, record: Record, described: dict[str, Any]) -> None:
        state = self.state
        if record.type == layout.SNAPSHOT:
            self._check_snapshot(record, described)
            return
        number = int(described["id"])
        if record.type in (layout.DESTINATION, layout.SUBSCRIPTION) and number < state.next_destination:
            raise ValueError(f"number {number} was given before, {state.next_destination} is the next")
        if record.type == layout.SUBSCRIPTION:
            for priority, first, tail in described["starts"]:
                is_tail = self.has_gaps or tail == state.open_lane(int(described["topic"]), priority).tail
                if not (first <= tail and is_tail):
                    raise ValueError(f"it begins at entry {first} of {tail}")
        state.take(record.type, described)

    def _check_snapshot(self, record: Record, described: dict[str, Any]) -> None:
        if int(described["sequence"]) != record.sequence:
            raise ValueError(f"it says sequence {described['sequence']}")
        snapshot = load_snapshot(record.payload())
        if self._is_empty:
            self._is_empty = False
            self.state = snapshot
            return
        if self.has_gaps:
            self._continue_from(snapshot)
            return
        self.state.consumers = snapshot.consumers  # no record says which of them are still connected
        if _comparable(snapshot) != _comparable(self.state):
            raise ValueError("it is not the state that the records before it give")

    def _continue_from(self, snapshot: StoreState) -> None:
        """Continue from a snapshot that follows a sparse segment."""
        for key, lane in snapshot.lanes.items():
            known = self.state.lanes.get(key)
            if known is None:
                self._sizes.setdefault(key, (lane.tail, array("I")))
            elif known.tail > lane.tail:
                raise ValueError(f"lane {lane.destination_id}/{lane.priority} ends at {lane.tail}, not {known.tail}")
            else:
                self._leave_out(known, lane.tail)
        self.state = snapshot
        self.has_gaps = self.is_sparse

    def _leave_out(self, lane: ConsumeQueue, tail: int) -> None:
        """Continue at entry ``tail``, as the records before it were removed."""
        key = (lane.destination_id << layout.LANE_SHIFT) | lane.priority
        first, sizes = self._sizes.setdefault(key, (lane.tail, array("I")))
        sizes.extend([GONE] * (tail - first - len(sizes)))
        lane.entries += bytes((tail - lane.tail) * layout.ENTRY_BYTES)
        lane.tail = tail

    def check_sums(self) -> None:
        """Compare live bytes with the sizes of the messages that are pending."""
        for destination in self.state.destinations.values():
            total = 0
            members = destination.holders.members
            for lane in destination.lanes:
                key = (lane.destination_id << layout.LANE_SHIFT) | lane.priority
                known, sizes = self._sizes.get(key, (lane.tail, array("I")))
                needed = _first_needed(destination, lane)
                if needed < known:
                    text = f"entry {needed} of {destination.name} is needed, the log begins with entry {known}"
                    self._note(self._directory, -1, text)
                for entry in range(max(needed, known), lane.tail):
                    if lane.is_topic:
                        is_live = any(member.lane(lane.priority).keeps(entry) for member in members)
                    else:
                        is_live = not lane.settled.contains(entry)
                    if is_live and sizes[entry - known] == GONE:
                        self._note(self._directory, -1, f"entry {entry} of {destination.name} is needed and missing")
                    elif is_live:
                        total += sizes[entry - known]
            if total != destination.live_bytes():
                text = f"{destination.name} has {destination.live_bytes()} live bytes, its messages come to {total}"
                self._note(self._directory, -1, text)


def _first_needed(destination: LoggedDestination, lane: ConsumeQueue) -> int:
    """Return the first entry of a lane that must exist.

    A subscription may begin where retention or compaction has removed messages; it holds only what came later.
    """
    if not lane.is_topic:
        return destination.first_needed(lane)
    first = lane.tail
    for member in destination.holders.members:
        held = max(member.first_needed(lane.priority, lane.tail), member.lane(lane.priority).counted_from)
        first = min(first, held)
    return first


def _comparable(state: StoreState) -> dict[str, Any]:
    """Return a snapshot of the state, without lanes of subscriptions that contain nothing."""
    described: dict[str, Any] = json.loads(encode_snapshot(state, 0))
    for subscription in described["subscriptions"]:
        subscription["lanes"] = [
            lane
            for lane in subscription["lanes"]
            if lane["cursor"] or lane["counted_from"] or lane["end"] > 0 or lane["settled"] or lane["attempts"]
        ]
    return described
