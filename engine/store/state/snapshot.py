"""Snapshots: the state of a store as the JSON of one record, and back.  Layout: docs/reference/log-format.md.

A snapshot is needed within one turn of the engine, but describing 20,000 queues takes as long as 2,000 messages.  So a
draft describes changed ones in passes as a segment comes to its end, a part of each pass in every turn, and at the end
only those changed since the last pass.  Queues with many runs of settled entries, or many failed attempts, are
described page by page.  Otherwise one fragmented queue would cost more than all other work of each turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from engine.store.format.layout import SYSTEM_QUEUE
from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.destination import DurableSubscription, LoggedDestination, SubscriptionLane
from engine.store.state.log_state import StoreState, compact_json
from engine.store.state.progress import FailedEntries, Progress
from engine.store.state.settled_entries import SettledEntries
from engine.values.destination import QUEUE
from engine.values.stored import Attempts


def encode_snapshot(state: StoreState, sequence: int) -> bytes:
    """Return the payload of a snapshot record with that sequence."""
    return put_together(
        state,
        sequence,
        map(describe, state.destinations.values()),
        map(describe_subscription, state.subscriptions.values()),
    )


def put_together(
    state: StoreState, sequence: int, destinations: Iterable[bytes], subscriptions: Iterable[bytes]
) -> bytes:
    """Return the payload of a snapshot record.

    destinations: results of ``describe``; subscriptions: results of ``describe_subscription``.
    """
    state.consumers.forget_unnamed()
    consumers = ",".join(state.consumers.described.values())
    head = (
        f'{{"sequence":{sequence},"next_consumer":{state.consumers.next_number},"next_destination":{state.next_destination},'
        f'"system_tail":{state.system.tail},"destinations":['
    )
    rest = f'],"consumers":[{consumers}]}}'
    # These may be megabytes, so they are copied only once.
    return b"".join(
        (head.encode(), b",".join(destinations), b'],"subscriptions":[', b",".join(subscriptions), rest.encode())
    )


def load_snapshot(payload: bytes) -> StoreState:
    """Return the state that a snapshot describes.

    Raises: KeyError, TypeError, ValueError for a malformed one.
    """
    described: dict[str, Any] = json.loads(payload)
    state = StoreState()
    state.consumers.next_number = int(described["next_consumer"])
    state.system = ConsumeQueue(SYSTEM_QUEUE, 0, True, int(described["system_tail"]))
    for destination in described["destinations"]:
        number = int(destination["id"])
        state.add_destination(number, int(destination["kind"]), str(destination["name"]))
        for known in destination["lanes"]:
            lane = state.open_lane(number, int(known["priority"]))
            lane.tail = lane.entries_first = int(known["tail"])
            _load_progress(lane, known)
        if lanes := state.destinations[number].lanes:
            lanes[0].live_bytes = int(destination["live_bytes"])
    for known in described["subscriptions"]:
        subscription = DurableSubscription(
            int(known["id"]), int(known["topic"]), str(known["name"]), known["description"]
        )
        for progress in known["lanes"]:
            own = SubscriptionLane(0, int(progress["counted_from"]))
            own.end = int(progress["end"])
            _load_progress(own, progress)
            subscription.lanes[int(progress["priority"])] = own
        subscription.is_closing = bool(known["is_closing"])
        state.destinations[subscription.topic_id].holders.members.append(subscription)
        state.subscriptions[subscription.number] = subscription
    for known in described["consumers"]:
        state.consumers.add(int(known["id"]), compact_json(known))
    state.next_destination = int(described["next_destination"])
    state.find_failing()
    return state


def describe(destination: LoggedDestination) -> bytes:
    lanes = destination.lanes
    if len(lanes) == 1 and destination.kind == QUEUE:
        # Nearly all are like this: the same as the general case below, in half the time.
        lane = lanes[0]
        if lane.tail and not lane.settled.pages and lane.failed is None:
            return (
                f'{destination.head}{lane.live_bytes},"lanes":[{{"priority":{lane.priority},"tail":{lane.tail},'
                f'"cursor":{lane.settled.cursor},"settled":[],"attempts":[]}}]}}'
            ).encode()
    # A lane without a message yet is left out: a torn tail may take its first message.
    described = ",".join([_describe_lane(lane) for lane in lanes if lane.tail])
    return f'{destination.head}{destination.live_bytes()},"lanes":[{described}]}}'.encode()


def _describe_lane(lane: ConsumeQueue) -> str:
    if lane.is_topic:
        progress = f'"cursor":{lane.tail},"settled":[],"attempts":[]'
    else:
        progress = _describe_progress(lane)
    return f'{{"priority":{lane.priority},"tail":{lane.tail},{progress}}}'


def describe_subscription(subscription: DurableSubscription) -> bytes:
    lanes = ",".join(
        [
            f'{{"priority":{priority},"counted_from":{lane.counted_from},"end":{lane.end},{_describe_progress(lane)}}}'
            for priority, lane in sorted(subscription.lanes.items())
            if not subscription.is_new(lane)
        ]
    )
    name = json.dumps(subscription.name, ensure_ascii=False)
    return (
        f'{{"id":{subscription.number},"topic":{subscription.topic_id},"name":{name},'
        f'"description":{compact_json(subscription.description)},'
        f'"is_closing":{"true" if subscription.is_closing else "false"},"lanes":[{lanes}]}}'
    ).encode()


def _describe_progress(progress: Progress) -> str:
    attempts = "" if progress.failed is None else progress.failed.text()
    return f'"cursor":{progress.settled.cursor},"settled":[{progress.settled.text()}],"attempts":[{attempts}]'


def _load_progress(progress: Progress, known: dict[str, Any]) -> None:
    progress.settled.add(0, int(known["cursor"]))
    for first, count in known["settled"]:
        progress.settled.add(int(first), int(count))
    for entry, *attempts in known["attempts"]:
        count, due_ms, first_ms, last_ms, cause, consumer_id = map(int, attempts)
        progress.fail(int(entry), 1, Attempts(count, due_ms, first_ms, last_ms, cause, consumer_id))


# The next snapshot is drafted in the last quarter of a segment, later changes in the last quarter of that,
DRAFT_PART: Final = 4  # and so on; a roll describes only changes of the last few records.
DRAFT_LAST_BYTES: Final = 16 << 10  # left of a segment when the last of these passes begins

Page = tuple[SettledEntries | FailedEntries, int]


class SnapshotDraft:
    """described: descriptions by number of the destination or subscription.

    left: how many of the changed ones this pass still describes, the first one first.
    pages: of the first one, pages to encode before the rest; None before it was examined.
    log_end: when the draft was last worked on.  pass_at: octets left of the segment when the next pass begins, 0: none.
    is_past_begin: a transaction can no longer begin in this segment.
    """

    __slots__ = ("_state", "_described", "_left", "_pages", "_log_end", "_pass_at", "_is_past_begin")

    def __init__(self, state: StoreState, log_end: int = 0) -> None:
        self._state = state
        self._described: dict[int, bytes] = {}
        self._left = 0
        self._pages: list[Page] | None = None
        self._log_end = log_end
        self._pass_at = 0
        self._is_past_begin = False
        state.touched.clear()
        state.touched.extend(state.destinations)
        state.touched.extend(state.subscriptions)

    def expect_end(self, left: int) -> None:
        """Begin the first pass once ``left`` octets of a segment are left."""
        self._pass_at = left
        self._is_past_begin = False

    def log_grown(self, end: int, limit: int, reserved: int) -> None:
        """Extend the draft in proportion to the growth of the log.

        limit: of the current segment; reserved: octets of it reserved for a transaction.
        """
        filled = end - self._log_end
        self._log_end = end
        left = limit - reserved - end  # then a transaction begins a new segment
        if left < 0:  # no transaction has come, and other records still fit
            left = limit - end
            if not self._is_past_begin:
                self._is_past_begin = True
                self._pass_at = left + 1
        if self._pass_at and left < self._pass_at:
            while self._pass_at and left < self._pass_at:
                is_last = self._pass_at <= DRAFT_LAST_BYTES
                self._pass_at = 0 if is_last else max(self._pass_at // DRAFT_PART, DRAFT_LAST_BYTES)
            self.begin_pass()
            filled = 0  # of the pass; a transaction of many times its length may just have come
        rest = left - self._pass_at  # of this pass
        if self._left and rest > 0 and (steps := self.steps_left()):
            # Twice its proportional part, so that the pass is done before the next one begins.
            self.go_on(2 * steps * filled // (rest + filled) + 1)

    def begin_pass(self) -> None:
        """Describe again everything that has changed until now; later changes are for the next pass."""
        self._left = len(self._state.touched)

    def steps_left(self) -> int:
        """Return how many steps of this pass are left, as far as known.

        The pages of the first one are counted once its turn has come, one step each.
        """
        return self._left + len(self._front_pages()) if self._left else 0

    def go_on(self, count: int) -> None:
        """Take ``count`` steps, in the order of the changes; a step is a page, or all the rest of one."""
        touched = self._state.touched
        while count > 0 and self._left:
            count -= 1
            pages = self._front_pages()
            if pages:
                entries, page = pages.pop()
                if page in entries.pages:
                    entries.encode(page)
                continue
            self._left -= 1
            self._pages = None
            number = touched.popleft()
            if self._pages_to_encode(number):
                touched.append(number)  # one that changes this fast waits for the next pass
            else:
                self._describe(number)

    def finish(self, sequence: int) -> bytes:
        """Return the payload of a snapshot record with that sequence, which is complete."""
        state = self._state
        self._left = 0
        self._pages = None
        while state.touched:
            self._describe(state.touched.popleft())
        described = self._described
        return put_together(
            state,
            sequence,
            [described[number] for number in state.destinations],
            [described[number] for number in state.subscriptions],
        )

    def _front_pages(self) -> list[Page]:
        pages = self._pages
        if pages is None:
            pages = self._pages = self._pages_to_encode(self._state.touched[0])
        return pages

    def _pages_to_encode(self, number: int) -> list[Page]:
        waiting: list[Page] = []
        for progress in self._progresses(number):
            settled, failed = progress.settled, progress.failed
            waiting += [(settled, page) for page in settled.pages_to_encode()]
            if failed is not None:
                waiting += [(failed, page) for page in failed.pages_to_encode()]
        return waiting

    def _progresses(self, number: int) -> Iterable[Progress]:
        destination = self._state.destinations.get(number)
        if destination is not None:
            return destination.lanes
        subscription = self._state.subscriptions.get(number)
        return () if subscription is None else subscription.lanes.values()

    def _describe(self, number: int) -> None:
        state = self._state
        destination = state.destinations.get(number)
        if destination is not None:
            for lane in destination.lanes:
                lane.is_touched = False
            self._described[number] = describe(destination)
            return
        subscription = state.subscriptions.get(number)
        if subscription is not None:
            subscription.is_touched = False
            self._described[number] = describe_subscription(subscription)
            return
        self._described.pop(number, None)
