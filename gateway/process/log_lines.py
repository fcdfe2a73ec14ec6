"""Protection of the log from peers: a line stays one line, and no address fills it."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, TypeAlias

from gateway.process.counters import GatewayCounters

LINES_MAX: Final = 60  # lines of one address or operator in one period, about all its connections
PERIOD_MS: Final = 60_000
ADDRESSES_KEPT: Final = 1_000  # addresses; the one that was silent longest is forgotten first

# Control characters, those that end a line in Unicode, and those that change the direction of text.
_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

ExceptionInfo: TypeAlias = "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]"


def one_line(text: str) -> str:
    """Return the text with escapes for characters that could end the line or reorder it."""
    return _UNFIT.sub(lambda found: ascii(found.group())[1:-1], text)


class LineFormatter(logging.Formatter):
    """Escape a name from a peer (a destination, a reason, a container id), so that it cannot forge a line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: ExceptionInfo) -> str:
        """Indent a traceback, because the text of an exception may contain lines of a peer."""
        return "\n".join("  " + one_line(line) for line in super().formatException(ei).splitlines())


class JsonFormatter(LineFormatter):
    """One JSON object a line: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, ``exception`` if any.

    An entry of the audit log has its fields as ``audit``.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": one_line(record.getMessage()),
        }
        if hasattr(record, "audit"):
            entry["audit"] = record.audit
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


FORMATTERS: Final = {"text": LineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"), "json": JsonFormatter()}


class LineLimit:
    """The number of lines that each address may still cause."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()  # address -> beginning of the period, lines

    def left(self, address: str, now_ms: int) -> int:
        """Count one more line; return how many may follow: -1 if not even this one, 0 if it is the last."""
        begun_ms, count = self._counts.pop(address, (now_ms, 0))
        if now_ms - begun_ms >= PERIOD_MS:
            begun_ms, count = now_ms, 0
        elif len(self._counts) >= ADDRESSES_KEPT:
            self._counts.popitem(last=False)
        self._counts[address] = begun_ms, count + 1
        if count >= LINES_MAX:
            return -1
        return LINES_MAX - count - 1


class PeerLines:
    """Lines about peers, as many as ``LineLimit`` allows for each address or operator.

    clock: monotonic, in seconds.
    """

    def __init__(self, counters: GatewayCounters, clock: Callable[[], float] = time.monotonic) -> None:
        self._counters = counters
        self._clock = clock
        self._limit = LineLimit()

    def warn(self, logger: logging.Logger, address: str, text: str, peer: str = "") -> None:
        """Write a line that begins with ``peer``, which is the address where nothing else is given."""
        self._write(logger, logging.WARNING, address, f"{peer or address}: {text}", None)

    def defect(self, logger: logging.Logger, address: str, text: str, error: BaseException | None) -> None:
        """Write a defect of the gateway that a peer has met, with its traceback."""
        self._write(logger, logging.ERROR, address, f"{address}: {text}", error)

    def done(self, logger: logging.Logger, level: int, operator: str, text: str) -> None:
        """Write what an operator has done, a user or an address in words."""
        self._write(logger, level, operator, text, None)

    def _write(self, logger: logging.Logger, level: int, address: str, line: str, error: BaseException | None) -> None:
        left = self._limit.left(address, round(self._clock() * 1_000))
        if left < 0:
            self._counters.left_out_lines += 1
            return
        more = "" if left else f"; more of {address} is left out for {PERIOD_MS // 1_000} s"
        logger.log(level, "%s%s", line, more, exc_info=error)
