"""A sorted set of whole numbers in chunks; the cost of adding and removing hardly depends on its size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final

CHUNK_KEYS: Final = 512  # a chunk twice as long is cut in two


class SortedKeys:
    """``len`` keys in ascending order, without duplicates."""

    __slots__ = ("_chunks", "_lasts", "_count")

    def __init__(self, ascending: list[int] | None = None) -> None:
        keys = ascending or []
        self._chunks = [keys[at : at + CHUNK_KEYS] for at in range(0, len(keys), CHUNK_KEYS)]
        self._lasts = [chunk[-1] for chunk in self._chunks]
        self._count = len(keys)

    def __len__(self) -> int:
        return self._count

    def add(self, key: int) -> None:
        """Add a key that is not there."""
        chunks = self._chunks
        lasts = self._lasts
        self._count += 1
        if not chunks:
            chunks.append([key])
            lasts.append(key)
            return
        place = bisect_left(lasts, key)
        if place == len(lasts):
            place -= 1
            chunk = chunks[place]
            chunk.append(key)
            lasts[place] = key
        else:
            chunk = chunks[place]
            insort(chunk, key)
        if len(chunk) >= 2 * CHUNK_KEYS:
            chunks[place : place + 1] = [chunk[:CHUNK_KEYS], chunk[CHUNK_KEYS:]]
            lasts[place : place + 1] = [chunk[CHUNK_KEYS - 1], chunk[-1]]

    def remove(self, key: int) -> None:
        """Remove a key that is there."""
        place = bisect_left(self._lasts, key)
        chunk = self._chunks[place]
        at = bisect_left(chunk, key)
        assert chunk[at] == key, "the key is there"
        del chunk[at]
        self._count -= 1
        if not chunk:
            del self._chunks[place]
            del self._lasts[place]
        elif at == len(chunk):
            self._lasts[place] = chunk[-1]

    def has(self, key: int) -> bool:
        place = bisect_left(self._lasts, key)
        if place == len(self._lasts):
            return False
        chunk = self._chunks[place]
        return chunk[bisect_left(chunk, key)] == key

    def first(self) -> int:
        """Return the least key; there must be one."""
        return self._chunks[0][0]

    def after(self, key: int, most: int) -> list[int]:
        """Return the least keys above ``key``: at most ``most``, and at least one if there is one."""
        place = bisect_right(self._lasts, key)
        if place == len(self._lasts):
            return []
        chunk = self._chunks[place]
        at = bisect_right(chunk, key)
        return chunk[at : at + most]
