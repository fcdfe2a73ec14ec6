"""Parts in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.values.pieces import PIECE_BYTES, Pieces

SIZES = [0, 1, 100, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 3 * PIECE_BYTES + 7]


@given(st.lists(st.sampled_from(SIZES), min_size=1, max_size=6))
def test_pieces_are_the_parts_in_order(sizes: list[int]) -> None:
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    pieces = Pieces()
    found = []
    while pieces.place < len(parts):
        found.append(bytes(pieces.take(parts)))
    assert b"".join(found) == b"".join(parts)
    assert all(len(piece) <= PIECE_BYTES for piece in found)


@pytest.mark.parametrize("count", [2, 1_000])
def test_small_parts_are_one_piece(count: int) -> None:
    pieces = Pieces()
    assert pieces.take([b"x"] * count) == b"x" * count
    assert pieces.place == count
