"""Times and numbers in words."""

from __future__ import annotations

import pytest

from engine.store.plain_words import counted
from gateway.answers.wording import clock_time


def test_times_are_in_utc() -> None:
    assert clock_time(1_700_000_000_042) == "2023-11-14T22:13:20.042Z"


@pytest.mark.parametrize(("count", "words"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages")])
def test_one_is_no_plural(count: int, words: str) -> None:
    assert counted(count, "message") == words
