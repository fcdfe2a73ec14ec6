"""The end of a segment, as the consume queues see it: entries to be written to their files."""

from __future__ import annotations

from engine.store.state.consume_queue import ConsumeQueue, EntryBlock


class Closing:
    """The consume-queue entries of all records below ``end``, a segment's base, that are not in the files yet.

    blocks: those gathered so far; the others are still in ``_lanes``.
    """

    __slots__ = ("end", "blocks", "entry_bytes", "_generation", "_lanes")

    def __init__(
        self, end: int, blocks: list[EntryBlock], generation: int, lanes: list[ConsumeQueue], entry_bytes: int
    ) -> None:
        self.end = end
        self.blocks = blocks
        self.entry_bytes = entry_bytes
        self._generation = generation
        self._lanes = lanes

    def block_count(self) -> int:
        """Return an upper bound for the number of blocks."""
        return len(self.blocks) + len(self._lanes)

    def gather(self, count: int) -> int:
        """Take the entries of at most ``count`` lanes; return how many lanes were examined."""
        looked = 0
        while self._lanes and looked < count:
            block = self._lanes.pop().block_of(self._generation)
            looked += 1
            if block is not None:
                self.blocks.append(block)
        return looked

    def is_gathered(self) -> bool:
        """Return whether ``blocks`` is complete."""
        return not self._lanes
