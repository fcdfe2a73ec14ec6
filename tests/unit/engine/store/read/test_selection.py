"""Destination patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.store.read.selection import CHARACTERS_MAX, PATTERNS_MAX, parse
from engine.values.destination import DUPLICATE_IDS_QUEUE, INTERNAL_QUEUES, PREPARED_QUEUE, QUEUE, SCHEDULE_QUEUE, TOPIC

WORDS = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3)
PATTERNS = st.builds(
    lambda prefix, words, end: prefix + ".".join([*words, *end]),
    st.sampled_from(["", "queue://", "/topic/"]),
    WORDS,
    st.sampled_from([[], [">"], ["#"]]),
) | st.sampled_from([">", *sorted(INTERNAL_QUEUES)])
NAMES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders.eu", "orders.eu", True),
        ("orders.eu", "orders.eu.de", False),
        ("orders.eu", "orders", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders", False),
        ("orders.*", "orders.eu.de", False),
        ("*.eu", "orders.eu", True),
        ("orders.>", "orders.eu.de", True),
        ("orders.>", "orders", True),
        ("orders.>", "ordersx", False),
        ("orders.#", "orders.eu.de", True),
        (">", "anything.at.all", True),
        ("", "anything.at.all", True),
        (">", SCHEDULE_QUEUE, False),
        ("Penstock.*", SCHEDULE_QUEUE, False),
        (SCHEDULE_QUEUE, SCHEDULE_QUEUE, True),
        (">", DUPLICATE_IDS_QUEUE, False),
        (">", PREPARED_QUEUE, False),
        ("queue://Penstock.>", PREPARED_QUEUE, False),
    ],
)
def test_names(pattern: str, name: str, matches: bool) -> None:
    assert parse(pattern).matches(QUEUE, name) is matches


@pytest.mark.parametrize(
    ("pattern", "queue", "topic"),
    [
        ("a", True, True),
        ("queue://a", True, False),
        ("/queue/a", True, False),
        ("topic://a", False, True),
        ("/topic/>", False, True),
    ],
)
def test_kinds(pattern: str, queue: bool, topic: bool) -> None:
    selection = parse(pattern)
    assert (selection.matches(QUEUE, "a"), selection.matches(TOPIC, "a")) == (queue, topic)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("/queue/a.#", "queue://a.>"), ("topic://b.*", "topic://b.*"), ("", ">"), ("a.b", "a.b")]
    + [("b.#, /queue/a", "b.>,queue://a"), ("a,a", "a,a")],
)
def test_text_is_the_same_for_patterns_that_mean_the_same(pattern: str, text: str) -> None:
    assert str(parse(pattern)) == text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("a..b", "empty word"), ("a.>.b", "last"), ("queue://.a", "empty word"), ("a,b..c", "'b..c' has an empty word")]
    + [(text, "has an empty pattern; allowed are patterns with commas between") for text in (",", "a,", " ,a", "a,,b")]
    + [(",".join(["a"] * (PATTERNS_MAX + 1)), "has 101 patterns; allowed are 100")]
    + [("a" * (CHARACTERS_MAX + 1), "has 10001 characters; allowed are 10000")],
)
def test_patterns_that_mean_nothing(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse(pattern)


@given(patterns=st.lists(PATTERNS, min_size=1, max_size=5), name=NAMES | st.sampled_from(sorted(INTERNAL_QUEUES)))
def test_several_patterns_match_what_one_of_them_matches(patterns: list[str], name: str) -> None:
    chosen = parse(",".join(patterns))
    for kind in (QUEUE, TOPIC):
        assert chosen.matches(kind, name) is any(parse(pattern).matches(kind, name) for pattern in patterns)
    assert parse(str(chosen)) == chosen


def test_as_many_patterns_as_are_allowed() -> None:
    names = [f"queue{number}" for number in range(PATTERNS_MAX)]
    chosen = parse(",".join(names))
    assert all(chosen.matches(QUEUE, name) for name in names)
    assert not chosen.matches(QUEUE, "queue")
