"""Duplicate ids: an address accepts one message with each id, so whoever gets no confirmation may safely send again.

The last ids of each address are remembered.  Those of logged messages are also in the log, in the batch of their
message: as entries of a queue of the store that clients cannot access.  Such an entry has everything (the tag hash is
the address, the expiry is the digest of the id), so a start reads no message.  Entries of the usual priority are of the
time when ids of senders and of the gateway were one space: they only become fewer.
Source: HornetQ and Artemis, "Duplicate Message Detection" (``_HQ_DUPL_ID``, ``_AMQ_DUPL_ID``, ``id-cache-size``).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.sources.identified import Identified, IdKey
from engine.values.destination import DUPLICATE_IDS_QUEUE, QUEUE
from engine.values.errors import DuplicateId
from engine.values.message import DEFAULT_PRIORITY, PERSISTENT, STOMP, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import LaneState, Range

FORGOTTEN_AT_ONCE: Final = 64  # ids, by one record of the log; an address remembers up to so many more than its limit
FORGOTTEN_MOST: Final = 1_024  # by one send, while there are many too many, as after a start with a smaller limit
RESTORED_AT_ONCE: Final = 65_536
PRIORITY: Final = DEFAULT_PRIORITY + 1  # of entries since then; they are younger than all of the usual priority
NOT_IN_LOG: Final = -1  # instead of the queue offset of an id's entry
ADDRESS_BITS: Final = 32
ADDRESS_MASK: Final = (1 << ADDRESS_BITS) - 1


@dataclass(frozen=True, slots=True)
class DuplicateIdLimits:
    """address_count: ids that each address remembers, 0: ids mean nothing.  count: of all addresses together."""

    address_count: int = 20_000
    count: int = 200_000


class ForgottenEntries:
    """Queue offsets of entries to settle.  former: those of the usual priority."""

    __slots__ = ("former", "entries")

    def __init__(self) -> None:
        self.former: list[int] = []
        self.entries: list[int] = []


class DuplicateIds:
    """dropped_count: messages that were not accepted again, since the start."""

    __slots__ = (
        "dropped_count",
        "_context",
        "_limits",
        "_queue_number",
        "_entry_bytes",
        "_places",
        "_by_address",
        "_former",
    )

    def __init__(self, context: Context, limits: DuplicateIdLimits) -> None:
        """Raises: StoreError if the disk cannot be read."""
        self.dropped_count = 0
        self._context = context
        self._limits = limits
        self._queue_number = 0
        self._entry_bytes = 0
        # By digest, the oldest first: address and queue offset in one number, because there may be many.
        self._places: dict[int, int] = {}
        self._by_address: dict[int, deque[int]] = {}  # digests, the oldest first
        self._former: set[int] = set()  # digests whose entries have the usual priority
        for state in context.store.recovered():
            if state.kind != QUEUE or state.name != DUPLICATE_IDS_QUEUE:
                continue
            if not limits.address_count:
                context.store.close_destination(state.destination_id)  # its ids would hold space for ever
                continue
            self._queue_number = state.destination_id
            for lane in sorted(state.lanes, key=_age):
                self._restore(lane)

    def __len__(self) -> int:
        return len(self._places)

    def is_known(self, key: IdKey) -> bool:
        return key.digest in self._places or key.former in self._former

    def require_new(self, sends: list[tuple[Identified, list[Message]]]) -> None:
        """Raises: DuplicateId if one of a transaction's ids is known, or is in it twice."""
        if not self._limits.address_count:
            return
        found: set[int] = set()
        for one, _ in sends:
            digest = one.key.digest
            if self.is_known(one.key) or digest in found:
                raise DuplicateId(
                    f"{one.uri()} has accepted a message with the duplicate id {one.shown_id!r} before; "
                    "nothing of the transaction was applied"
                )
            found.add(digest)

    def add(self, key: IdKey, is_logged: bool) -> None:
        """Remember the id of a message that was just accepted, in the same batch.  is_logged: the message."""
        if not self._limits.address_count:
            return
        self._remember(key.address, key.digest, self._append(key) if is_logged else NOT_IN_LOG)
        self._forget_old(key.address)

    # -- the steps

    def _append(self, key: IdKey) -> int:
        store = self._context.store
        if not self._queue_number:
            self._queue_number = store.open_destination(QUEUE, DUPLICATE_IDS_QUEUE)
        entry = Message(self._queue_number, STOMP, PERSISTENT, PRIORITY, key.address, 0, key.digest, b"", b"", b"")
        store.append(entry)
        self._entry_bytes = entry.size
        return entry.queue_offset

    def _remember(self, address: int, digest: int, entry: int) -> None:
        self._places[digest] = (entry << ADDRESS_BITS) | address
        digests = self._by_address.get(address)
        if digests is None:
            digests = self._by_address[address] = deque()
        digests.append(digest)

    def _forget_old(self, address: int) -> None:
        digests = self._by_address[address]
        forgotten = ForgottenEntries()
        for _ in range(_to_forget(len(digests), self._limits.address_count)):
            self._forget(digests.popleft(), forgotten)
        for _ in range(_to_forget(len(self._places), self._limits.count)):
            digest = next(iter(self._places))
            others = self._by_address[self._places[digest] & ADDRESS_MASK]
            assert others[0] == digest, "the oldest id of all is the oldest of its address"
            others.popleft()
            self._forget(digest, forgotten)
        ranges = self._ranges(DEFAULT_PRIORITY, forgotten.former) + self._ranges(PRIORITY, forgotten.entries)
        if ranges:
            self._context.store.settle(self._queue_number, 0, ACKNOWLEDGED, CAUSE_NONE, ranges)

    def _forget(self, digest: int, forgotten: ForgottenEntries) -> None:
        """Forget one id; note the entry that the log has of it."""
        place = self._places.pop(digest)
        address = place & ADDRESS_MASK
        if not self._by_address[address]:
            del self._by_address[address]
        if digest in self._former:
            self._former.remove(digest)
            forgotten.former.append(place >> ADDRESS_BITS)
        elif place >> ADDRESS_BITS != NOT_IN_LOG:
            forgotten.entries.append(place >> ADDRESS_BITS)

    def _ranges(self, priority: int, entries: list[int]) -> list[Range]:
        entries.sort()
        ranges: list[Range] = []
        for entry in entries:
            last = ranges[-1] if ranges else None
            if last is not None and last.first + last.count == entry:
                last.count += 1
                last.size_bytes += self._entry_bytes
            else:
                ranges.append(Range(priority, entry, 1, 0, self._entry_bytes))
        return ranges

    def _restore(self, lane: LaneState) -> None:
        for first, end in lane.waiting_runs():
            for start in range(first, end, RESTORED_AT_ONCE):
                count = min(end - start, RESTORED_AT_ONCE)
                columns = self._context.store.entries(self._queue_number, lane.priority, start, count)
                for at, address in enumerate(columns.tags[:count]):
                    if columns.places[at]:
                        self._remember(address, columns.expiries[at], columns.first + at)
                        if lane.priority == DEFAULT_PRIORITY:
                            self._former.add(columns.expiries[at])
                        self._entry_bytes = columns.sizes[at]


def _age(lane: LaneState) -> int:
    return lane.priority


def _to_forget(known: int, limit: int) -> int:
    """Return how many of ``known`` ids to forget now."""
    excess = known - limit
    return min(excess, FORGOTTEN_MOST) if excess >= FORGOTTEN_AT_ONCE else 0
