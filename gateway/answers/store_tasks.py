"""Verification and rebuilding of the running gateway's store: both take a while, so only one runs at a time."""

from __future__ import annotations

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from engine.store.recover.live_rebuild import LiveRebuild
from engine.store.verify.copies import remove_abandoned

REMEMBERED_MAX: Final = 64
CHECK_INTERVAL_S: Final = 0.1
VERIFY: Final = "verify"
REBUILD: Final = "rebuild"


class TaskRefused(Exception):
    """Another task is under way."""


class Task(ABC):
    """findings, result: of a task that succeeded.  failure: why it failed, "" if it did not."""

    def __init__(self) -> None:
        self.is_done = False
        self.failure = ""
        self.findings: list[dict[str, Any]] = []
        self.result: dict[str, Any] = {}

    @abstractmethod
    async def run(self) -> None:
        """Do it."""

    def document(self, number: int) -> dict[str, Any]:
        return {
            "task": number,
            "done": self.is_done,
            "failure": self.failure,
            "findings": self.findings,
            "result": self.result,
        }


class Verifying(Task):
    """Verify in a separate process: a large store takes long, and the engine needs its processor."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._directory = directory

    async def run(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "gateway", "store", "verify", "--json", "--data", self._directory),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            remove_abandoned(Path(self._directory))
            raise
        lines = [json.loads(line) for line in out.decode().splitlines()]
        if not lines:
            words = err.decode("utf-8", "replace").strip().removeprefix("penstock: ")
            self.failure = words or f"it ended with exit status {process.returncode}"
            return
        *self.findings, self.result = lines


class Rebuilding(Task):
    def __init__(self, begin: Callable[[], LiveRebuild]) -> None:
        super().__init__()
        self._begin = begin

    async def run(self) -> None:
        rebuild = self._begin()
        while not rebuild.is_done():
            await asyncio.sleep(CHECK_INTERVAL_S)
        self.failure = rebuild.reason
        self.result = {"records": rebuild.record_count, "end": rebuild.durable}


class StoreTasks:
    """begin: starts to rebuild the derived files."""

    def __init__(self, directory: str, begin: Callable[[], LiveRebuild]) -> None:
        remove_abandoned(Path(directory))
        self._directory = directory
        self._begin = begin
        self._tasks: dict[int, Task] = {}
        self._next_number = 1
        self._running: asyncio.Task[None] | None = None

    def start(self, what: str) -> dict[str, Any]:
        """Begin a task.  what: VERIFY or REBUILD.  Raises: TaskRefused while another one is under way."""
        if self._running is not None and not self._running.done():
            number, _ = next((number, task) for number, task in self._tasks.items() if not task.is_done)
            raise TaskRefused(f"task {number} on the store is running; allowed is one at a time")
        assert what in (VERIFY, REBUILD), what
        task: Task = Verifying(self._directory) if what == VERIFY else Rebuilding(self._begin)
        number = self._next_number
        self._next_number += 1
        self._tasks[number] = task
        while len(self._tasks) > REMEMBERED_MAX:
            del self._tasks[next(iter(self._tasks))]
        self._running = asyncio.create_task(self._run(task))
        return task.document(number)

    def status(self, number: int) -> dict[str, Any] | None:
        """Return None if there is no such task."""
        task = self._tasks.get(number)
        return None if task is None else task.document(number)

    async def stop(self) -> None:
        """Stop the task that is under way."""
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self, task: Task) -> None:
        try:
            await task.run()
        except (OSError, ValueError) as error:
            task.failure = str(error)
        finally:
            task.is_done = True
