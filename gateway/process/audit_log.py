"""The audit log: who managed something, and who was denied something, one line each.

Its logger is ``penstock.audit``.  As text an entry is ``name="value"`` for each field, in JSON the member ``audit``.
Values come from peers, so they are quoted: none can end a field or a line.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import LineLimit

VALUE_MAX_CHARACTERS: Final = 2_000  # room for the longest name of a destination

log: Final = logging.getLogger("penstock.audit")


@dataclass(frozen=True, slots=True)
class Audited:
    """user: login that was checked, that was refused where the result is ``login-refused``, "" for none.

    address: of the client.  action: of HTTP its name in /api/openapi.json, else the permission or what was asked.
    target: a destination, or what else the action is about.  result: ``done``, or a condition as in errors.
    """

    user: str
    address: str
    protocol: str
    action: str
    target: str
    result: str


class AuditLog:
    """clock: monotonic, in seconds."""

    def __init__(self, counters: GatewayCounters, clock: Callable[[], float] = time.monotonic) -> None:
        self._counters = counters
        self._clock = clock
        self._limit = LineLimit()

    def managed(self, entry: Audited) -> None:
        """Note an action of an operator, successful or not: always."""
        _write(logging.INFO, entry)

    def denied(self, host: str, entry: Audited) -> None:
        """Note a request without the right to it, as often as one host may cause lines."""
        if self._limit.left(host, round(self._clock() * 1_000)) < 0:
            self._counters.left_out_lines += 1
            return
        _write(logging.WARNING, entry)


def _write(level: int, entry: Audited) -> None:
    fields = {name: value[:VALUE_MAX_CHARACTERS] for name, value in asdict(entry).items()}
    text = " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())
    log.log(level, "%s", text, extra={"audit": fields})
