from __future__ import annotations

import pytest

from bench.growth import one


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["connections", "transactions", "backlog-drain"])
def test_a_message_costs_hardly_more_with_eight_things_than_with_four(name: str) -> None:
    """``one`` itself checks that every message came; instructions are counted, so this asserts no time."""
    four, eight = (one(name, size)["instructions"] for size in (4, 8))
    assert 0 < eight < 1.2 * four
