"""Documents of the whole gateway: one is made at a time, for all requests that came before it was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Document = TypeVar("Document")


class SharedDocuments(Generic[Document]):
    """make: makes a document, given its kind."""

    def __init__(self, make: Callable[[str], Awaitable[Document]]) -> None:
        self._make = make
        self._next: dict[str, asyncio.Task[Document]] = {}
        self._making = asyncio.Lock()

    async def document(self, kind: str) -> Document:
        task = self._next.get(kind)
        if task is None:
            task = self._next[kind] = asyncio.create_task(self._made(kind))
        return await asyncio.shield(task)

    async def _made(self, kind: str) -> Document:
        async with self._making:
            del self._next[kind]
            return await self._make(kind)
