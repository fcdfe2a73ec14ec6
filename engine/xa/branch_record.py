"""A prepared branch in the log: a record for each message that it sends, then one for the branch itself.

The record of a message is the message as it will be sent, with lines in front of its annotations:

prepared-queue:NAME        its destination; or prepared-topic.  A scheduled message may have several
prepared-delay:MS  prepared-period:MS  prepared-repeat:N  prepared-time:MS  prepared-cron:TEXT  prepared-renews:1
                           when a scheduled message is due
prepared-duplicate:ADDRESS DIGEST
                           its duplicate id, as two numbers (engine.sources.identified)

The branch's own record has these annotations, and in its body a line ``NUMBER PRIORITY FIRST COUNT`` for each run of
acknowledged entries: the number of their queue or durable subscription, their priority, the first, how many.

prepared-xid:XID           as text
prepared-user:LOGIN        who began it, unless logins are not checked
prepared-ms:TIME           when it was prepared
prepared-replay:ADDRESS DIGEST
                           its replay key, if it has one
prepared-sends:N           how many records before it are its messages

After an outcome by an operator there is a record of that, until it is forgotten, with these annotations:

prepared-outcome:WORD      commit or rollback
prepared-branch:XID        and prepared-user; prepared-ms is when it was decided
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from engine.features.scheduler.delayed_send import Delayed
from engine.features.scheduler.plan import Plan
from engine.open_transaction import Transaction
from engine.sources.identified import IdKey
from engine.sources.queue import QuestionQueue, queue_of
from engine.values.destination import KIND_NAMES, KINDS_BY_NAME, QUEUE, TOPIC
from engine.values.message import (
    DEFAULT_PRIORITY,
    PERSISTENT,
    PLAIN,
    PRIORITY_SHIFT,
    STOMP,
    Message,
    annotation,
    split_annotations,
)
from engine.values.stored import Range
from engine.values.xid import Xid, xid_of
from engine.xa.branch import Branch

LANE: Final = DEFAULT_PRIORITY  # of all records, so that those of one branch follow each other
PREFIX: Final = "prepared-"
XID: Final = "prepared-xid"
OUTCOME: Final = "prepared-outcome"

_LINE: Final = PREFIX.encode()
_HEAD: Final = f"{XID}:".encode()
_OUTCOME_HEAD: Final = f"{OUTCOME}:".encode()
_COMMIT: Final = "commit"
_ROLLBACK: Final = "rollback"
_LOW_FLAGS: Final = (1 << PRIORITY_SHIFT) - 1
_TIMES: Final = ("delay", "period", "repeat", "time")


@dataclass(slots=True)
class HeldRun:
    """Acknowledged entries.  number: of the queue or durable subscription."""

    number: int
    priority: int
    first: int
    count: int


@dataclass(slots=True)
class PreparedSend:
    """targets: kind and name of its destinations.  plan: when it is due; None for a message that is sent at once."""

    message: Message
    targets: list[tuple[int, str]]
    plan: Plan | None
    key: IdKey | None


@dataclass(slots=True)
class PreparedRecord:
    """What the log has of a branch."""

    xid: Xid
    user: str
    prepared_ms: int
    send_count: int
    replay_key: IdKey | None = None
    held: list[HeldRun] = field(default_factory=list)


@dataclass(slots=True)
class HeuristicOutcome:
    """What an operator has decided about a branch of ``user``.  place: its record in the log."""

    xid: Xid
    user: str
    decided_ms: int
    is_commit: bool
    place: Range


# -- to the log


def records_of(branch: Branch, prepared_ms: int, number: int) -> list[Message]:
    """Return the records of a branch.  number: of the queue that holds them."""
    transaction = branch.transaction
    keys = {id(copies[0]): one.key for one, copies in transaction.identified}
    records = [
        _send_record(message, number, _target_line(destination.kind, destination.name), keys.get(id(message)))
        for destination, message in transaction.sends
        if destination.kind in (QUEUE, TOPIC) and not isinstance(destination, QuestionQueue)
    ]
    for delayed, message in transaction.scheduled:
        assert isinstance(delayed, Delayed), "a scheduled send has a delay"
        lines = b"".join(_target_line(part.kind, part.name) for part in delayed.parts if part.kind in (QUEUE, TOPIC))
        if lines:
            records.append(_send_record(message, number, lines + _plan_lines(delayed.plan), keys.get(id(message))))
    lines = annotation(XID, str(branch.xid)) + (annotation("prepared-user", branch.user) if branch.user else b"")
    if branch.replay_key is not None:
        lines += annotation("prepared-replay", _key_words(branch.replay_key))
    lines += annotation("prepared-ms", str(prepared_ms)) + annotation("prepared-sends", str(len(records)))
    body = "".join(f"{run.number} {run.priority} {run.first} {run.count}\n" for run in held_runs(transaction))
    records.append(Message(number, STOMP, PERSISTENT, LANE, 0, 0, 0, lines, b"", body.encode()))
    return records


def outcome_record(xid: Xid, user: str, decided_ms: int, is_commit: bool, number: int) -> Message:
    """Return the record of an operator's outcome.  number: of the queue that holds it."""
    lines = annotation(OUTCOME, _COMMIT if is_commit else _ROLLBACK) + annotation("prepared-branch", str(xid))
    lines += annotation("prepared-user", user) if user else b""
    lines += annotation("prepared-ms", str(decided_ms))
    return Message(number, STOMP, PERSISTENT, LANE, 0, 0, 0, lines, b"", b"")


def held_runs(transaction: Transaction) -> list[HeldRun]:
    """Return what it has acknowledged of the log, as few runs as that takes."""
    places: set[tuple[int, int, int]] = set()
    for delivery in transaction.accepted:
        queue = queue_of(delivery.lane)
        message = delivery.message
        if message.queue_offset >= 0 and queue.is_logged and not queue.is_closed:
            places.add((queue.destination_id, message.priority, message.queue_offset))
    runs: list[HeldRun] = []
    for number, priority, offset in sorted(places):
        last = runs[-1] if runs else None
        if (
            last is not None
            and (last.number, last.priority) == (number, priority)
            and last.first + last.count == offset
        ):
            last.count += 1
        else:
            runs.append(HeldRun(number, priority, offset, 1))
    return runs


def _target_line(kind: int, name: str) -> bytes:
    return annotation(f"{PREFIX}{KIND_NAMES[kind]}", name)


def _plan_lines(plan: Plan) -> bytes:
    times = zip(_TIMES, (plan.delay_ms, plan.period_ms, plan.repeat, plan.time_ms), strict=True)
    lines = [annotation(f"{PREFIX}{word}", str(value)) for word, value in times if value or word == "delay"]
    if plan.cron:
        lines.append(annotation(f"{PREFIX}cron", plan.cron))
    if plan.renews_expiry:
        lines.append(annotation(f"{PREFIX}renews", "1"))
    return b"".join(lines)


def _send_record(message: Message, number: int, lines: bytes, key: IdKey | None) -> Message:
    if key is not None:
        lines += annotation(f"{PREFIX}duplicate", _key_words(key))
    lines += message.annotations
    flags = (message.flags & _LOW_FLAGS) | (message.jms_priority() + 1) << PRIORITY_SHIFT
    if b"\\" in lines:
        flags &= ~PLAIN
    return Message(
        number,
        message.encoding,
        flags,
        LANE,
        message.tag_hash,
        message.group_hash,
        message.expires_ms,
        lines,
        message.headers,
        message.body,
    )


# -- from the log


def is_branch(record: Message) -> bool:
    """Say whether a record is that of a branch, and not of a message."""
    return record.annotations.startswith(_HEAD)


def is_outcome(record: Message) -> bool:
    """Say whether a record is that of an operator's outcome."""
    return record.annotations.startswith(_OUTCOME_HEAD)


def read_outcome(record: Message) -> HeuristicOutcome:
    """Raises: KeyError, ValueError, InvalidOption for a malformed record."""
    lines = dict(split_annotations(record.annotations))
    word = lines[OUTCOME]
    if word not in (_COMMIT, _ROLLBACK):
        raise ValueError(f"the outcome is {word[:100]!r}")
    return HeuristicOutcome(
        xid_of(lines["prepared-branch"]),
        lines.get("prepared-user", ""),
        int(lines["prepared-ms"]),
        word == _COMMIT,
        Range(LANE, record.queue_offset, 1, 0, record.size),
    )


def read_branch(record: Message) -> PreparedRecord:
    """Raises: KeyError, ValueError, InvalidOption for a malformed record."""
    lines = dict(split_annotations(record.annotations))
    held = [HeldRun(*(int(word) for word in line.split())) for line in record.body.decode().splitlines()]
    return PreparedRecord(
        xid_of(lines[XID]),
        lines.get("prepared-user", ""),
        int(lines["prepared-ms"]),
        int(lines["prepared-sends"]),
        _key(lines.get("prepared-replay", "").split()),
        held,
    )


def read_send(record: Message) -> PreparedSend:
    """Return the message of a record; its destination has no number yet.  Raises: KeyError, ValueError."""
    annotations = record.annotations
    at = 0
    while annotations.startswith(_LINE, at):
        at = annotations.index(b"\n", at) + 1
    targets: list[tuple[int, str]] = []
    values: dict[str, str] = {}
    for full_word, value in split_annotations(annotations[:at]):
        word = full_word.removeprefix(PREFIX)
        if word in KINDS_BY_NAME:
            targets.append((KINDS_BY_NAME[word], value))
        else:
            values[word] = value
    message = Message(
        0,
        record.encoding,
        record.flags & _LOW_FLAGS,
        record.jms_priority(),
        record.tag_hash,
        record.group_hash,
        record.expires_ms,
        annotations[at:],
        record.headers,
        record.body,
    )
    return PreparedSend(message, targets, _plan(values), _key(values.get("duplicate", "").split()))


def _plan(values: dict[str, str]) -> Plan | None:
    if "delay" not in values:
        return None
    delay_ms, period_ms, repeat, time_ms = (int(values.get(word, "0")) for word in _TIMES)
    return Plan(delay_ms, period_ms, repeat, values.get("cron", ""), time_ms, "renews" in values)


def _key_words(key: IdKey) -> str:
    return f"{key.address} {key.digest}"


def _key(words: Iterable[str]) -> IdKey | None:
    numbers = [int(word) for word in words]
    return IdKey(numbers[0], numbers[1]) if numbers else None
