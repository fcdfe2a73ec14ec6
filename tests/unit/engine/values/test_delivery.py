"""The transition table of a delivery: every row, and that nothing else is allowed."""

from __future__ import annotations

import itertools

import pytest

from engine.values.delivery import EVENT_COUNT, STATE_COUNT, TRANSITIONS, advance


@pytest.mark.parametrize(("row", "after"), TRANSITIONS.items())
def test_every_row_of_the_table(row: tuple[int, int], after: int) -> None:
    assert advance(*row) == after


ILLEGAL = [row for row in itertools.product(range(STATE_COUNT), range(EVENT_COUNT)) if row not in TRANSITIONS]


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_every_other_move_is_our_bug(state: int, event: int) -> None:
    with pytest.raises(AssertionError, match=f"no transition from state {state} on event {event}"):
        advance(state, event)
