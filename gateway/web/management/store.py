"""Questions about the running gateway's store, answered from its files by a reader, so that the engine continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from engine.store.read.backup import back_up
from engine.store.read.log_readers import LogReader, log_readers
from engine.store.read.reader import StoreReader
from engine.store.recover.live_rebuild import LiveRebuild
from engine.store.space.disk_usage import space_of
from engine.store.space.retention_reasons import Keeping
from gateway.answers.message_document import WHOLE_BYTES_MAX
from gateway.answers.message_lives import Lives, lives_of
from gateway.answers.served_files import Part, listing, read_part
from gateway.answers.store_dump import dump_page
from gateway.answers.store_tasks import StoreTasks
from gateway.answers.store_view import answer, question_of
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.limits.thread_turns import ThreadTurns


class LiveStore:
    """One question at a time, so that many of them do not take the engine's processor.

    Files have turns of their own, one read at a time: a question may take minutes, a range is small.
    """

    def __init__(
        self,
        directory: str,
        begin_rebuild: Callable[[], LiveRebuild],
        keeping: Callable[[], Keeping],
        memory: RequestMemory,
    ) -> None:
        self._directory = Path(directory)
        self._keeping = keeping
        self._questions = ThreadTurns(memory)
        self._files = ThreadTurns(memory)
        self._tasks = StoreTasks(directory, begin_rebuild)

    async def query(self, address: str, asked: Mapping[str, str]) -> bytes:
        """Return the JSON.  Raises: WrongQuestion; StoreError."""
        question = question_of(asked)
        return await self._questions.done(
            address, lambda: json.dumps(answer(StoreReader(self._directory), question, WHOLE_BYTES_MAX)).encode()
        )

    async def space(self, address: str, tells_why: bool) -> dict[str, Any]:
        """Raises: StoreError."""
        return await self._questions.done(
            address, lambda: asdict(space_of(StoreReader(self._directory), tells_why, self._keeping()))
        )

    async def dump(self, address: str, asked: Mapping[str, str]) -> bytes:
        """Return the JSON.  Raises: WrongQuestion; StoreError."""
        return await self._questions.done(
            address, lambda: json.dumps(dump_page(StoreReader(self._directory), asked)).encode()
        )

    async def lives(self, address: str, message_id: str, before: int) -> Lives:
        """Raises: StoreError."""
        left = Event()
        return await self._questions.done(
            address, lambda: lives_of(StoreReader(self._directory), message_id, before, left.is_set), left.set
        )

    async def readers(self, address: str) -> list[LogReader]:
        """Raises: StoreError; OSError."""
        return await self._files.done(address, partial(log_readers, self._directory))

    async def files(self, address: str) -> bytes:
        """Return the JSON of the list of files.  Raises: StoreError; OSError."""
        return await self._files.done(address, partial(listing, self._directory))

    async def part(self, address: str, path: str, asked: tuple[int, int] | None) -> Part:
        """Return a part of a file.  Raises: FileNotFoundError, NoSuchRange; OSError."""
        return await self._files.done(address, partial(read_part, self._directory, path, asked))

    def start(self, what: str) -> dict[str, Any]:
        return self._tasks.start(what)

    def status(self, number: int) -> dict[str, Any] | None:
        return self._tasks.status(number)

    async def stop(self) -> None:
        await self._tasks.stop()

    async def backup(self, address: str, directory: str) -> dict[str, Any]:
        """Raises: StoreError; OSError."""
        return await self._questions.done(address, lambda: asdict(back_up(self._directory, Path(directory))))
