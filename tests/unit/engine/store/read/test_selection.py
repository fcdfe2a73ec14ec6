"""Destination patterns."""

from __future__ import annotations

import pytest

from engine.store.read.selection import parse
from engine.values.destination import DUPLICATE_IDS_QUEUE, PREPARED_QUEUE, QUEUE, SCHEDULE_QUEUE, TOPIC


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
    ("pattern", "text"), [("/queue/a.#", "queue://a.>"), ("topic://b.*", "topic://b.*"), ("", ">"), ("a.b", "a.b")]
)
def test_text_is_the_same_for_patterns_that_mean_the_same(pattern: str, text: str) -> None:
    assert str(parse(pattern)) == text


@pytest.mark.parametrize(("pattern", "text"), [("a..b", "empty word"), ("a.>.b", "last"), ("queue://.a", "empty word")])
def test_patterns_that_mean_nothing(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse(pattern)
