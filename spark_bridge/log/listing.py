"""Which messages a piece of the log has: by consume queues where these cover it, else by a scan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from engine.store.format import layout
from engine.store.format.record_cursor import NO_CHECKSUMS
from engine.store.read.entry_files import lanes
from engine.values.errors import StoreCorrupt
from spark_bridge.log.blocks import piece_blocks
from spark_bridge.log.heads import Heads, heads_of_entries, heads_of_records, joined
from spark_bridge.log.records import ENTRY_DTYPE, PAST_ALL, Flags, Int64s, Piece, chosen, placed_entries, present
from spark_bridge.log.removed import is_sparse

_NOTHING: Final = heads_of_entries(np.empty(0, dtype=ENTRY_DTYPE), 0, np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Listing:
    """Messages in the order of the log.  numbers: of their destinations."""

    offsets: Int64s
    sizes: Int64s
    numbers: Int64s
    heads: Heads

    def where(self, is_wanted: Flags) -> Listing:
        """Return some of them."""
        if is_wanted.all():
            return self
        rows = np.flatnonzero(is_wanted)
        return Listing(self.offsets[rows], self.sizes[rows], self.numbers[rows], self.heads.at(rows))


def listed(
    directory: Path, destinations: Iterable[int], flags: int, piece: Piece, from_ms: int = 0, to_ms: int = PAST_ALL
) -> Listing:
    """Return the messages of some destinations with ``flags``, by their entries; also those that retention removed.

    from_ms, to_ms: store times, of the first and behind the last message that is needed.
    """
    found = [_NOTHING]
    sizes = [np.empty(0, dtype=np.int64)]
    for number in destinations:
        for priority in lanes(directory, number):
            entries, queue_offsets = placed_entries(
                directory, number, priority, piece.start, piece.stop, from_ms, to_ms
            )
            if flags:
                rows = np.flatnonzero(entries["flags"] & flags == flags)
                entries, queue_offsets = entries[rows], queue_offsets[rows]
            found.append(heads_of_entries(entries, number, queue_offsets))
            sizes.append(entries["size"].astype(np.int64))
    heads = joined(found)
    order = np.argsort(heads.offsets, kind="stable")  # merges the lanes, each of which is in order
    heads = heads.at(order)
    return Listing(heads.offsets, np.concatenate(sizes)[order], heads.numbers, heads)


def without_removed(listing: Listing, piece: Piece) -> Listing:
    """Return the messages that retention has left.  Raises: RangeGone if all are gone."""
    return listing.where(present(piece.segment, listing.offsets))


def scanned(destinations: Iterable[int], flags: int, piece: Piece) -> Listing:
    """Return the messages of some destinations with ``flags``, by the records.  Raises: RangeGone, StoreCorrupt."""
    owners = np.array(sorted(destinations), dtype=np.int64)
    found = [_NOTHING]
    sizes = [np.empty(0, dtype=np.int64)]
    end = piece.start
    for block in piece_blocks(piece.segment, piece.start, piece.stop, NO_CHECKSUMS):
        end = int(block.i64(16)[-1]) + layout.padded(int(block.sizes[-1]))
        is_wanted = (block.u8(8) == layout.MESSAGE) & (block.u16(10) & flags == flags)
        messages = chosen(block, is_wanted & np.isin(block.u32(12), owners))
        found.append(heads_of_records(messages))
        sizes.append(messages.sizes)
    if end < piece.stop and not is_sparse(piece.segment):
        raise StoreCorrupt(f"{piece.segment.path.name}: records end at log offset {end}, {piece.stop} was expected")
    heads = joined(found)
    return Listing(heads.offsets, np.concatenate(sizes), heads.numbers, heads)
