"""Sets of offsets, against Python's own."""

from __future__ import annotations

from random import Random

from engine.backlog.lane_entries import PAGE_BITS, OffsetSet


def test_ranges_cross_pages() -> None:
    offsets = OffsetSet()
    page = 1 << PAGE_BITS
    offsets.add_range(page - 2, page + 4)
    assert [one in offsets for one in (page - 3, page - 2, page, 2 * page + 1, 2 * page + 2)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert len(offsets) == page + 4


def test_it_is_a_set() -> None:
    chance = Random(1)
    offsets = OffsetSet()
    model: set[int] = set()
    for _ in range(300):
        first, count = chance.randrange(20_000), chance.choice((1, 1, 3, 5_000))
        if count == 1:
            offsets.add(first)
        else:
            offsets.add_range(first, count)
        model.update(range(first, first + count))
        if chance.random() < 0.05:
            limit = chance.randrange(15_000)
            offsets.drop_below(limit)
            model = {one for one in model if one >= limit}
        assert len(offsets) == len(model)
        probe = chance.randrange(25_000)
        assert (probe in offsets) == (probe in model)


def test_nothing_is_kept_of_what_was_dropped() -> None:
    offsets = OffsetSet()
    offsets.add_range(0, 100_000)
    offsets.drop_below(100_000)
    assert offsets.pages == {}
