"""One call that a worker makes, and the answer to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.ports.workers import Job
from engine.store.disk.files import describe
from engine.values.errors import StoreError

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class DiskJob(Job, Generic[T]):
    """Calls ``work`` on a worker; ``done`` gets its result and "", or None and the reason why the disk refused.

    done: None if nothing depends on the answer.  place: named in the reason if the error names no file.
    """

    _work: Callable[[], T]
    _done: Callable[[T | None, str], None] | None = None
    _place: str = ""
    _result: T | None = None
    _reason: str = ""

    def run(self) -> None:
        try:
            self._result = self._work()
        except OSError as error:
            self._reason = describe(error, str(error.filename or self._place))
        except StoreError as error:
            self._reason = str(error)

    def finish(self) -> None:
        if self._done is not None:
            self._done(self._result, self._reason)
