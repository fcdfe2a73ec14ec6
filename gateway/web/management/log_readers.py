"""Readers elsewhere say how far they have read the log: exports and named streams, see ``export_watermarks``.

Their files are those of readers on this machine, so retention, ``store readers``, ``/metrics`` and a restarted gateway
know no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import (
    UnknownReader,
    Watermark,
    find_watermark,
    forget_reader,
    read_watermarks,
    write_watermark,
)
from engine.store.read.reader import store_id_of
from engine.store.read.segment_files import read_checkpoint
from engine.values.errors import LimitReached
from gateway.process.clock import SYSTEM_CLOCK
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.limits.thread_turns import ThreadTurns

READERS_MOST: Final = 100  # of a store, those on this machine included: all of them are in /metrics


class WrongPlace(Exception):
    """The position is none that the reader can have now; the text names it and what is allowed."""


class LogReaders:
    """memory: of answers."""

    def __init__(self, directory: str, memory: RequestMemory, now_ms: Callable[[], int] = SYSTEM_CLOCK.wall_ms) -> None:
        self._directory = Path(directory)
        self._now_ms = now_ms
        self._turns = ThreadTurns(memory)

    async def begin(self, address: str, store_id: str, mark: Watermark) -> None:
        """Know a reader, at this position whatever it had before.

        Raises: WrongPlace; LimitReached; StoreError; OSError.
        """

        def write() -> None:
            self._check(store_id, mark.to_offset)
            marks = read_watermarks(RealFiles(), str(self._directory), store_id).marks
            is_known = any((each.is_stream, each.reader) == (mark.is_stream, mark.reader) for each in marks)
            if not is_known and len(marks) >= READERS_MOST:
                raise LimitReached(f"the store knows {len(marks)} exports and streams; allowed are {READERS_MOST}")
            write_watermark(self._directory, store_id, replace(mark, written_ms=self._now_ms()))

        await self._turns.done(address, write)

    async def advance(self, address: str, store_id: str, is_stream: bool, reader: str, to_offset: int) -> None:
        """Let a reader go on.  Raises: WrongPlace; UnknownReader; StoreError; OSError."""

        def write() -> None:
            self._check(store_id, to_offset)
            known = find_watermark(self._directory, store_id, is_stream, reader)
            if known is None:
                raise UnknownReader(f"no reader is named {reader!r}")
            if to_offset < known.to_offset:
                raise WrongPlace(
                    f"to_offset is {to_offset}; {known.title()} is at {known.to_offset} already, which another reader "
                    f"of that name may have said"
                )
            if to_offset > known.to_offset:  # otherwise it is asked for again
                mark = replace(known, to_offset=to_offset, written_ms=self._now_ms())
                write_watermark(self._directory, store_id, mark)

        await self._turns.done(address, write)

    async def end(self, address: str, is_stream: bool, reader: str) -> None:
        """Forget a reader.  Raises: UnknownReader; OSError."""
        await self._turns.done(address, lambda: forget_reader(self._directory, is_stream, reader))

    def _check(self, store_id: str, to_offset: int) -> None:
        """Raises: WrongPlace; StoreError."""
        if store_id != (ours := store_id_of(self._directory)):
            raise WrongPlace(f"store is {store_id[:80]!r}; this gateway has {ours!r}")
        checkpoint = read_checkpoint(self._directory / "checkpoint")
        end = 0 if checkpoint is None else checkpoint.durable_offset
        if to_offset > end:
            raise WrongPlace(f"to_offset is {to_offset}; the log can be read up to {end}")
