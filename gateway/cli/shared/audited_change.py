"""Commands that change a stopped store write a line of the audit log to standard error: no gateway runs that could."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager

from engine.values.errors import PenstockError
from gateway.process.audit_log import Audited, AuditLog, log
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import FORMATTERS


@contextmanager
def audited(action: str, target: str) -> Iterator[None]:
    """Note what happens within, by the user of this process, also if it fails."""
    result = "interrupted"
    try:
        yield
        result = "done"
    except PenstockError as error:
        result = error.condition
        raise
    except Exception:
        result = "failed"
        raise
    finally:
        _note(Audited(_user(), "", "command line", action, target, result))


def _note(entry: Audited) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS["text"])
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        AuditLog(GatewayCounters()).managed(entry)
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


def _user() -> str:
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # as in containers
        return str(number)
