"""Schedules that were firing when a defect stopped the gateway: the next start does not fire them again.

A firing changes the engine, so a defect in it stops the process, and at the next start the same messages are due again.
``schedule-faults.json`` in the store's directory lists scheduled messages that are no longer fired (``barred``, with
the reason).  If one of several caused the stop, it lists all of them (``doubtful``), and they are fired one by one.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from engine.store.disk.files import Files

if TYPE_CHECKING:
    from engine.features.scheduler.scheduler import Scheduler

NAME: Final = "schedule-faults.json"
FORMAT: Final = 1
SIZE_MOST: Final = 1024 * 1024  # octets of the file that are read

log: Final = logging.getLogger("penstock.schedule")


class FiringFaults:
    """directory: the store's."""

    def __init__(self, files: Files, directory: str, scheduler: Scheduler) -> None:
        self._files = files
        self._path = f"{directory}/{NAME}"
        self._scheduler = scheduler

    def take_up(self) -> None:
        """Give the scheduler the findings of an earlier run about messages that still wait."""
        if not self._files.exists(self._path):
            return
        firing = self._scheduler.firing
        pending = self._scheduler.pending
        try:
            barred, doubtful = self._read()
            firing.barred = {place: reason for place, reason in barred.items() if pending.find(place) is not None}
            firing.doubtful = {place for place in doubtful if pending.find(place) is not None}
            if not firing.barred and not firing.doubtful:
                self._files.unlink(self._path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("%s is ignored: %s: %s", self._path, type(error).__name__, error)
            return
        for place, reason in firing.barred.items():
            log.error("scheduled message %s will not be fired: %s", self._scheduler.job_id(place), reason)

    def note(self, failure: str) -> None:
        """The engine has failed: record the messages that were being fired, if any."""
        firing = self._scheduler.firing
        suspected = firing.suspected()
        if not suspected:
            return
        if len(suspected) == 1:
            firing.barred[suspected[0]] = f"its firing stopped the gateway: {failure}"
            firing.doubtful.discard(suspected[0])
        else:
            firing.doubtful.update(suspected)
        try:
            self._write(firing.barred, firing.doubtful)
        except OSError as error:
            log.error("%s cannot be written, so the next start fires the same messages again: %s", self._path, error)

    def _read(self) -> tuple[dict[int, str], list[int]]:
        file = self._files.open_to_read(self._path)
        try:
            said = json.loads(file.pread(SIZE_MOST, 0))
        finally:
            file.close()
        if said["format"] != FORMAT:
            raise ValueError(f"format {said['format']!r}; allowed is {FORMAT}")
        return {int(place): str(reason) for place, reason in said["barred"].items()}, [
            int(one) for one in said["doubtful"]
        ]

    def _write(self, barred: dict[int, str], doubtful: set[int]) -> None:
        said = {"format": FORMAT, "barred": barred, "doubtful": sorted(doubtful)}
        file = self._files.create(f"{self._path}.new")
        try:
            file.pwrite(json.dumps(said, indent=1).encode(), 0)
            file.fsync()
        finally:
            file.close()
        self._files.rename(f"{self._path}.new", self._path)
