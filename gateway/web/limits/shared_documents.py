"""Documents of the whole gateway: one is made at a time, for all requests that came before it was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Document = TypeVar("Document")


@dataclass(eq=False, slots=True)
class _Making(Generic[Document]):
    task: asyncio.Task[Document]
    asker_count: int = 0


class SharedDocuments(Generic[Document]):
    """make: makes a document, given its kind.  _next: not begun yet, by kind."""

    def __init__(self, make: Callable[[str], Awaitable[Document]]) -> None:
        self._make = make
        self._next: dict[str, _Making[Document]] = {}
        self._turn = asyncio.Lock()

    async def document(self, kind: str) -> Document:
        making = self._next.get(kind)
        if making is None:
            making = self._next[kind] = _Making(asyncio.create_task(self._made(kind)))
        making.asker_count += 1
        try:
            return await asyncio.shield(making.task)
        finally:
            making.asker_count -= 1
            if not making.asker_count and self._next.get(kind) is making:
                del self._next[kind]  # all who asked have left
                making.task.cancel()

    async def _made(self, kind: str) -> Document:
        async with self._turn:
            del self._next[kind]
            return await self._make(kind)
