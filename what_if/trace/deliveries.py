"""The table deliveries -> what consumers did, when they were there, and how long each message took them.

The table tells when a consumer was done with a message, not when it began.  A consumer is taken to work on one message
after the other: it began when it was done with the one before, or when the message had come, whichever was later.
Messages that it settled at one moment share the time before that equally.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow.compute as pc

from engine.values.destination import KINDS_BY_NAME, TOPIC
from engine.values.outcomes import OUTCOME_NAMES
from spark_bridge.arrow.deliveries import OUTCOMES
from what_if.trace.columns import Int64s, codes, joined, milliseconds, numbers, packed
from what_if.trace.tables import Batches
from what_if.trace.trace import (
    ALWAYS_MS,
    AT_ONCE,
    CLOSED,
    FAILED,
    GIVEN_UP,
    LOST,
    NEVER_MS,
    REJECTED,
    WORKED,
    Attempts,
    Ends,
    Owner,
    TracedConsumer,
)

US: Final = 1_000  # in a millisecond
SILENT_MS: Final = 1_000  # a consumer that settles nothing for less may still be there
SILENT_MESSAGES: Final = 20  # and while fewer messages come, or fewer than SILENT_ROUNDS for each consumer
SILENT_ROUNDS: Final = 3
AS_BEFORE: Final = -1  # a kind: that of the attempt before
KINDS: Final = {"rejected": REJECTED, "connection-lost": LOST, "closed": CLOSED, "exhausted": AS_BEFORE}
NAMES: Final = (
    "owner",
    "offset",
    "time",
    "message",
    "message_time",
    "lane",
    "outcome",
    "cause",
    "attempt",
    "due",
    "consumer",
)


@dataclass(slots=True)
class DeliveryColumns:
    """Rows in the order of the log.  owners: codes of kind, name and subscription.  names: of consumers, by number."""

    owners: dict[str, int] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    columns: dict[str, Int64s] = field(default_factory=dict)

    def owner_of(self, text: str) -> Owner:
        target, _, subscription = text.partition("\n")
        kind, _, name = target.partition("://")
        return Owner(KINDS_BY_NAME[kind], name, subscription)


def read_deliveries(batches: Batches) -> DeliveryColumns:
    """Read all rows."""
    found = DeliveryColumns()
    outcomes = {name: code for code, name in enumerate(OUTCOMES)}
    parts: dict[str, list[Int64s]] = {name: [] for name in NAMES}
    for batch in batches:
        target = pc.binary_join_element_wise(batch.column("destination_kind"), batch.column("destination_name"), "://")
        owner = pc.binary_join_element_wise(target, pc.fill_null(batch.column("subscription"), ""), "\n")
        row = {
            "owner": codes(owner, found.owners),
            "offset": numbers(batch.column("log_offset")),
            "time": milliseconds(batch.column("store_time")),
            "message": numbers(batch.column("message_offset"), -1),
            "message_time": milliseconds(batch.column("message_time"), -1),
            "lane": numbers(batch.column("lane")),
            "outcome": codes(batch.column("outcome"), outcomes),
            "cause": codes(batch.column("cause"), found.causes),
            "attempt": numbers(batch.column("attempt")),
            "due": milliseconds(batch.column("next_attempt")),
            "consumer": numbers(batch.column("consumer")),
        }
        for name, values in row.items():
            parts[name].append(values)
        new, at = np.unique(row["consumer"], return_index=True)
        for number, place in zip(new.tolist(), at.tolist(), strict=True):
            if number and number not in found.names:
                words = [batch.column(name)[place].as_py() for name in ("client_id", "login", "address")]
                found.names[number] = next((word for word in words if word), str(number))
    columns = {name: joined(values) for name, values in parts.items()}
    order = np.argsort(columns["offset"], kind="stable")
    found.columns = {name: values[order] for name, values in columns.items()}
    return found


def ends_of(rows: DeliveryColumns, messages: Int64s, start_ms: int) -> Ends:
    """Return how some messages really ended, and how long they waited since ``start_ms``.  messages: log offsets."""
    found = rows.columns
    chosen = np.isin(found["message"], messages) & (found["outcome"] <= max(OUTCOME_NAMES))
    waits = found["time"] - np.maximum(found["message_time"], start_ms)
    return Ends(
        packed("i", found["owner"][chosen]),
        packed("q", found["time"][chosen]),
        packed("q", waits[chosen]),
        packed("b", found["outcome"][chosen]),
    )


@dataclass(slots=True)
class Worked:
    """What consumers did.  messages: log offsets of the rows of ``attempts``, ascending."""

    consumers: list[TracedConsumer]
    attempts: Attempts
    messages: Int64s


def attempts_of(rows: DeliveryColumns) -> Worked:
    """Return each attempt with its kind and its time, and the consumers."""
    all_rows = rows.columns
    closed = rows.causes.get("closed", -1)
    is_attempt = (all_rows["attempt"] > 0) | ((all_rows["cause"] == closed) & (all_rows["outcome"] == 0))
    is_attempt &= (all_rows["consumer"] > 0) & (all_rows["message"] >= 0)
    # Of several messages that one lost connection had, the first is taken to be the cause of it.
    is_lost = (all_rows["cause"] == rows.causes.get("connection-lost", -1)) & (all_rows["outcome"] == 0)
    is_attempt[1:] &= ~(is_lost[1:] & is_lost[:-1] & (all_rows["offset"][1:] == all_rows["offset"][:-1]))
    found = {name: values[is_attempt] for name, values in all_rows.items()}
    kinds = _kinds(rows, found)
    by_message = np.lexsort((np.arange(len(kinds)), found["message"], found["owner"]))
    _resolve(found, kinds, by_message)
    kinds[found["outcome"] > 1] += GIVEN_UP
    consumers, which, ranks = _consumers(rows, found, kinds, _available(found, by_message))
    order = np.argsort(found["message"], kind="stable")
    attempts = Attempts(
        packed("i", found["owner"][order]),
        packed("i", which[order]),
        packed("b", kinds[order]),
        packed("i", ranks[order]),
    )
    return Worked(consumers, attempts, found["message"][order])


def since_of(rows: DeliveryColumns, count: int) -> list[int]:
    """Return for each owner the log offset from which messages are for it: 0 for queues."""
    since = [0] * count
    for text, code in rows.owners.items():
        owner = rows.owner_of(text)
        if owner.kind == TOPIC:
            mine = rows.columns["message"][rows.columns["owner"] == code]
            known = mine[mine >= 0]
            since[code] = int(known.min()) if len(known) else 0
    return since


# -- the steps


def _kinds(rows: DeliveryColumns, found: dict[str, Int64s]) -> Int64s:
    of_cause = np.array([KINDS.get(cause, FAILED) for cause in rows.causes] or [FAILED], np.int64)
    kinds = np.where(found["outcome"] == 1, WORKED, of_cause[found["cause"]])
    is_at_once = (kinds == FAILED) & (found["outcome"] == 0) & (found["due"] == 0)
    kinds[is_at_once] = AT_ONCE
    return kinds


def _same_message(found: dict[str, Int64s], order: Int64s) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each row but the first, in an order, whether it follows another attempt with its message."""
    owners, messages = found["owner"][order], found["message"][order]
    same: np.ndarray[tuple[int], np.dtype[np.bool_]] = (owners[1:] == owners[:-1]) & (messages[1:] == messages[:-1])
    return same


def _resolve(found: dict[str, Int64s], kinds: Int64s, order: Int64s) -> None:
    """Give the last attempt of an exhausted message the kind of the one before."""
    same = _same_message(found, order)
    ordered = kinds[order]
    before = np.where(np.concatenate([[False], same]), np.concatenate([[FAILED], ordered[:-1]]), FAILED)
    before[(before == AS_BEFORE) | (before == WORKED)] = FAILED
    kinds[order] = np.where(ordered == AS_BEFORE, before, ordered)


def _available(found: dict[str, Int64s], order: Int64s) -> Int64s:
    """Return when each message could be with its consumer: when it came, or when it was to be tried again."""
    same = np.concatenate([[False], _same_message(found, order)])[: len(order)]
    again = np.maximum(found["time"], found["due"])[order]
    before = np.concatenate([[0], again[:-1]])[: len(order)]
    available = np.empty(len(order), np.int64)
    available[order] = np.where(same, before, found["message_time"][order])
    return available


def _consumers(
    rows: DeliveryColumns, found: dict[str, Int64s], kinds: Int64s, available: Int64s
) -> tuple[list[TracedConsumer], Int64s, Int64s]:
    """Return the consumers, and for each row the place of its consumer and the rank of its time."""
    pairs, which = np.unique(np.stack([found["owner"], found["consumer"]]), axis=1, return_inverse=True)
    which = which.reshape(-1)
    ranks = np.zeros(len(kinds), np.int64)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(pairs.shape[1] + 1))
    services = [
        Services.of(found["time"][mine], available[mine])
        for mine in (order[low:high] for low, high in pairwise(bounds))
    ]
    owners: dict[int, OwnerTimes] = {}
    consumers: list[TracedConsumer] = []
    for place, (owner, number) in enumerate(pairs.T.tolist()):
        mine = order[bounds[place] : bounds[place + 1]]
        if owner not in owners:
            others = [services[at] for at in np.flatnonzero(pairs[0] == owner).tolist()]
            is_owners = found["owner"] == owner
            owners[owner] = OwnerTimes.of(found["message_time"][is_owners], found["time"][is_owners], others)
        own = services[place]
        own.settle_first(owners[owner].later_us)
        by_time = np.argsort(own.us, kind="stable")
        ranks[mine[by_time]] = np.arange(len(mine))
        last_kinds = kinds[mine][found["time"][mine] == own.last_ms] & ~GIVEN_UP
        is_cut = bool(np.isin(last_kinds, (LOST, CLOSED)).any())
        from_ms, to_ms = owners[owner].presence(own, is_cut)
        name = rows.names.get(number, str(number))
        consumers.append(TracedConsumer(owner, number, name, from_ms, to_ms, packed("q", own.us[by_time])))
    return consumers, which, ranks


@dataclass(slots=True)
class Services:
    """The times of one consumer.  us: of each of its messages.  first_count: messages that it settled first, together.

    first_ms, last_ms: when it settled first and last.  longest_ms: between two of its settlements.
    """

    us: Int64s
    first_count: int
    first_ms: int
    last_ms: int
    longest_ms: int

    @classmethod
    def of(cls, times: Int64s, available: Int64s) -> Services:
        """times: of its settlements, ascending."""
        starts = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
        counts = np.diff(np.concatenate([starts, [len(times)]]))
        moments = times[starts]
        begins = np.minimum.reduceat(available, starts)
        begins[1:] = np.maximum(begins[1:], moments[:-1])
        work = np.repeat(np.maximum(moments - begins, 0) * US, counts)
        places = np.arange(len(times)) - np.repeat(starts, counts)
        sizes = np.repeat(counts, counts)
        us = work * (places + 1) // sizes - work * places // sizes
        gaps = np.diff(moments)
        longest = int(gaps.max()) if len(gaps) else 0
        return cls(us, int(counts[0]), int(moments[0]), int(moments[-1]), longest)

    def later(self) -> Int64s:
        """Return the times of all messages but the first."""
        return self.us[self.first_count :]

    def settle_first(self, of_owner: Int64s) -> None:
        """Replace the first time by a usual one if it is longer than all others: the consumer was not there yet."""
        others = self.later() if len(self.later()) else of_owner
        if len(others) and int(np.max(self.us[: self.first_count])) > int(np.max(others)):
            self.us[: self.first_count] = int(np.median(others))


@dataclass(slots=True)
class OwnerTimes:
    """Of one queue or subscription, ascending: when its messages came and were settled.

    later_us: times that all its consumers took, without the first of each.
    """

    came_ms: Int64s
    settled_ms: Int64s
    later_us: Int64s
    consumers: int

    @classmethod
    def of(cls, came_ms: Int64s, settled_ms: Int64s, services: list[Services]) -> OwnerTimes:
        later = joined([one.later() for one in services])
        return cls(np.sort(came_ms), np.sort(settled_ms), later, len(services))

    def presence(self, services: Services, is_cut: bool) -> tuple[int, int]:
        """Return when a consumer was there.

        is_cut: its last message ended it.
        """
        silent_ms = max(SILENT_MS, 2 * services.longest_ms)
        most = max(SILENT_MESSAGES, SILENT_ROUNDS * self.consumers)
        begin_ms = services.first_ms - int(services.us[: services.first_count].sum()) // US
        settled_before = int(np.searchsorted(self.settled_ms, begin_ms))
        is_late = begin_ms - int(self.came_ms[0]) > silent_ms and settled_before >= most
        came_after = len(self.came_ms) - int(np.searchsorted(self.came_ms, services.last_ms, side="right"))
        is_gone = int(self.settled_ms[-1]) - services.last_ms > silent_ms and came_after >= most
        return begin_ms if is_late else ALWAYS_MS, services.last_ms if is_cut or is_gone else NEVER_MS
