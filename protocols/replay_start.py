"""Where a replay begins, as the clients of every protocol write it.

    from-offset    a queue offset, in the queue of each priority; or first, last, next
    from-time      milliseconds since 1970, or 2026-01-31T12:00:00Z
    from-id        the message-id of a persistent message

RabbitMQ's stream offsets have the same kinds: first, last, next, a number, a time.  They skip messages that are no
longer kept, where ours are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from config.values import MOMENT_ALLOWED, moment_ms
from engine.values.errors import InvalidOption
from engine.values.message import TIME_MOST_MS
from engine.values.options import FIRST, LAST, NEXT, ReplayStart

FROM_OFFSET: Final = "from-offset"
FROM_TIME: Final = "from-time"
FROM_ID: Final = "from-id"
NAMES: Final = (FROM_OFFSET, FROM_TIME, FROM_ID)
STREAM_OFFSET: Final = "x-stream-offset"

PLACES: Final = (FIRST, LAST, NEXT)
OFFSET_MOST: Final = 2**63 - 1


def replay_start(asked: Mapping[str, str]) -> ReplayStart | None:
    """Return the start that the values of ``NAMES`` set, None for no replay.  Raises: InvalidOption."""
    given = [name for name in NAMES if name in asked]
    if not given:
        return None
    if len(given) > 1:
        raise InvalidOption(f"{' and '.join(given)} both set the start of the replay; allowed is one of them")
    text = asked[given[0]].strip()
    if FROM_ID in asked:
        return ReplayStart(message_id=text)
    if FROM_TIME in asked:
        return ReplayStart(time_ms=_time_ms(FROM_TIME, text))
    if text in PLACES:
        return ReplayStart(text)
    return ReplayStart(entry=_offset(FROM_OFFSET, text, "a queue offset, first, last or next"))


def stream_start(text: str) -> ReplayStart:
    """Return the start that RabbitMQ's ``x-stream-offset`` sets: first, last, next, offset=N, timestamp=SECONDS.

    Raises: InvalidOption.
    """
    name, _, value = text.strip().partition("=")
    if name in PLACES and not value:
        return ReplayStart(name)
    if name == "timestamp":
        seconds = _offset(STREAM_OFFSET, value, "a whole number of seconds since 1970")
        return ReplayStart(time_ms=min(1000 * seconds, TIME_MOST_MS))
    if name == "offset":
        return ReplayStart(entry=_offset(STREAM_OFFSET, value, "a whole number"), is_lenient=True)
    raise InvalidOption(
        f"{STREAM_OFFSET} is {text[:80]!r}; allowed are first, last, next, offset=N and timestamp=SECONDS"
    )


def _offset(name: str, text: str, allowed: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= OFFSET_MOST:
        return int(text)
    raise InvalidOption(f"{name} is {text[:80]!r}; allowed is {allowed}")


def _time_ms(name: str, text: str) -> int:
    try:
        return moment_ms(text)
    except (ValueError, OverflowError):
        raise InvalidOption(f"{name} is {text[:80]!r}; allowed are {MOMENT_ALLOWED}") from None
