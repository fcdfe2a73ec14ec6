"""A schedule's own lines in its record, in front of the message's annotations.

schedule-queue:NAME       the destination; or schedule-topic, schedule-temp-queue, schedule-temp-topic
schedule-tag:N            tag hash of the message, unless it is 0; the record's own tag hash names the destination
schedule-expires:MS       when it expires, unless never; or
schedule-lives:MS         its time to live after its delivery
schedule-delay:MS  schedule-period:MS  schedule-repeat:N  schedule-cron:TEXT
                          what remains of the plan of a repeating schedule
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.features.scheduler.plan import Plan
from engine.values.destination import KIND_NAMES
from engine.values.message import (
    JOB_ID,
    PLAIN,
    PRIORITY_SHIFT,
    SCHEDULED,
    Message,
    annotation,
    later_ms,
    split_annotations,
)

PREFIX: Final = "schedule-"

_LINE: Final = PREFIX.encode()
_KINDS: Final = {name: kind for kind, name in KIND_NAMES.items()}
_LOW_FLAGS: Final = (1 << PRIORITY_SHIFT) - 1


@dataclass(slots=True)
class ScheduleHeader:
    """kind, name: destination.  expires_ms: absolute; lives_ms: after the delivery; 0 for neither."""

    kind: int
    name: str
    tag_hash: int
    expires_ms: int
    lives_ms: int
    plan: Plan

    def expiry_at(self, now_ms: int) -> int:
        """Return JMSExpiration of a message delivered now."""
        return later_ms(now_ms, self.lives_ms) if self.lives_ms else self.expires_ms


def standing_lines(kind: int, name: str, plan: Plan) -> bytes:
    """Return the lines that all messages sent in this way share."""
    if not plan.is_repeating():
        return _target_line(kind, name)
    lines = [_target_line(kind, name)]
    for word, value in (("delay", plan.delay_ms), ("period", plan.period_ms), ("repeat", plan.repeat)):
        if value:
            lines.append(annotation(f"{PREFIX}{word}", str(value)))
    if plan.cron:
        lines.append(annotation(f"{PREFIX}cron", plan.cron))
    return b"".join(lines)


@lru_cache(maxsize=1024)
def _target_line(kind: int, name: str) -> bytes:
    return annotation(f"{PREFIX}{KIND_NAMES[kind]}", name)


def message_lines(tag_hash: int, expires_ms: int, lives_ms: int) -> bytes:
    """Return the lines of a single message."""
    lines = b"schedule-tag:%d\n" % tag_hash if tag_hash else b""
    if lives_ms:
        lines += b"schedule-lives:%d\n" % lives_ms
    elif expires_ms:
        lines += b"schedule-expires:%d\n" % expires_ms
    return lines


def to_record(
    message: Message, number: int, lane: int, due_ms: int, target: int, standing: bytes, now_ms: int, plan: Plan
) -> Message:
    """Return the record that waits in the schedule.  target: the number of its destination."""
    expires_ms = message.expires_ms
    lives_ms = expires_ms - now_ms if plan.renews_expiry and expires_ms > now_ms else 0
    lines = standing + message_lines(message.tag_hash, expires_ms, lives_ms) + message.annotations
    flags = (message.flags & _LOW_FLAGS) | SCHEDULED | (message.jms_priority() + 1) << PRIORITY_SHIFT
    if b"\\" in lines:
        flags &= ~PLAIN
    return Message(
        number, message.encoding, flags, lane, target, message.group_hash, due_ms, lines, message.headers, message.body
    )


def read_header(annotations: bytes) -> tuple[ScheduleHeader, bytes]:
    """Return the content of the lines, and the message's own annotations behind them.

    Raises: KeyError, ValueError for malformed lines.
    """
    at = 0
    while annotations.startswith(_LINE, at):
        at = annotations.index(b"\n", at) + 1
    kind = 0
    name = ""
    values = {"tag": 0, "expires": 0, "lives": 0, "delay": 0, "period": 0, "repeat": 0}
    cron = ""
    for full_word, value in split_annotations(annotations[:at]):
        word = full_word.removeprefix(PREFIX)
        if word in values:
            values[word] = int(value)
        elif word == "cron":
            cron = value
        else:
            kind, name = _KINDS[word], value
    plan = Plan(values["delay"], values["period"], values["repeat"], cron, 0, values["lives"] > 0)
    return ScheduleHeader(kind, name, values["tag"], values["expires"], values["lives"], plan), annotations[at:]


def to_message(record: Message, header: ScheduleHeader, own: bytes, number: int, job_id: str, now_ms: int) -> Message:
    """Return the message that is delivered.  number: of the destination; own: the annotations it was sent with."""
    return Message(
        number,
        record.encoding,
        record.flags & _LOW_FLAGS & ~(SCHEDULED | PLAIN),  # its new annotation has an escape
        record.jms_priority(),
        header.tag_hash,
        record.group_hash,
        header.expiry_at(now_ms),
        annotation(JOB_ID, job_id) + own,
        record.headers,
        record.body,
    )
