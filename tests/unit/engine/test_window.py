"""Windows: how much may be in flight, and when a full one opens again (semantics.md 2.1, design.md section 4)."""

from __future__ import annotations

import pytest

from engine.window import Window


def fill(window: Window) -> int:
    taken = 1
    while not window.take():
        taken += 1
    return taken


@pytest.mark.parametrize(
    ("prefetch", "is_half", "limit", "resume_at"),
    [
        (10, True, 10, 5),
        (7, True, 7, 3),
        (2, True, 2, 1),
        (1, True, 1, 0),
        (0, True, 1, 0),
        (10, False, 10, 9),
        (1, False, 1, 0),
        (0, False, 1, 0),
    ],
)
def test_a_full_window_opens_again_at(prefetch: int, is_half: bool, limit: int, resume_at: int) -> None:
    window = Window(prefetch, is_half)
    assert fill(window) == limit
    assert window.is_full
    opened = []
    while window.in_flight:
        if window.give_back():
            opened.append(window.in_flight)
    assert opened == [resume_at]
    assert not window.is_full


def test_a_window_that_never_filled_does_not_report_an_opening() -> None:
    window = Window(10, True)
    assert not window.take()
    assert not window.give_back()


def test_after_an_opening_it_fills_up_again() -> None:
    window = Window(10, True)
    fill(window)
    for _ in range(5):
        window.give_back()
    assert fill(window) == 5


def test_an_abort_takes_places_back_even_past_the_limit() -> None:
    window = Window(2, False)
    fill(window)
    window.give_back()  # acknowledged inside a transaction
    assert window.take()  # another one is handed out
    window.retake()
    assert (window.in_flight, window.is_full) == (3, True)
    assert not window.give_back()  # 2 of 2: still full
    assert window.give_back()


def test_an_abort_below_the_limit_leaves_the_window_open() -> None:
    window = Window(4, True)
    window.take()
    window.give_back()
    window.retake()
    assert (window.in_flight, window.is_full) == (1, False)
