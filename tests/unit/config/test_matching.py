"""Which settings apply: patterns, precedence, merge, sources."""

from __future__ import annotations

import itertools

import pytest

from config.matching import BOTH, QUEUE, TOPIC, AddressEntry, AddressMatcher, InvalidPattern, Pattern, Setting
from config.policies import AddressSettings
from engine.values import destination


def entry(pattern: str, kinds: int = BOTH, /, **values: object) -> AddressEntry:
    """Keywords with ``__`` for the dot of a path."""
    by_path = {name.replace("__", "."): value for name, value in values.items()}
    sources = {path: f"{pattern}@{path}" for path in by_path}
    return AddressEntry(Pattern.parse(pattern), kinds, by_path, sources)


def test_kinds_are_the_engines() -> None:
    assert (QUEUE, TOPIC) == (destination.QUEUE, destination.TOPIC)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders.eu", False),
        ("orders", "Orders", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders", False),
        ("orders.*", "orders.eu.west", False),
        ("orders.>", "orders.eu", True),
        ("orders.>", "orders.eu.west", True),
        ("orders.>", "orders", True),  # ActiveMQ: A matches A.>
        ("orders.>", "ordersx", False),
        ("orders.#", "orders.eu.west", True),
        (">", "anything.at.all", True),
        ("#", "x", True),
        ("*.eu.>", "orders.eu", True),
        ("*.eu.>", "orders.eu.west.1", True),
        ("*.eu.>", "orders", False),
        ("*", "a.b", False),
    ],
)
def test_matches(pattern: str, name: str, matches: bool) -> None:
    assert Pattern.parse(pattern).matches(tuple(name.split("."))) is matches


@pytest.mark.parametrize("pattern", ["", "a..b", ".a", "a.", "a.>.b", "#.b", "a*", "a.b>", "a.#x"])
def test_refused_patterns(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern.parse(pattern)


# Each row from the least to the most specific; all of them match a.b.c.
@pytest.mark.parametrize(
    "ascending",
    [
        [">", "*.>", "*.*.c", "*.b.>", "*.b.c", "a.>", "a.*.>", "a.*.*", "a.*.c", "a.b.>", "a.b.*", "a.b.c"],
        ["a.b.c.>", "a.b.c"],
    ],
)
def test_the_more_specific_wins_wherever_it_stands(ascending: list[str]) -> None:
    for less, more in itertools.combinations(ascending, 2):
        for first, second in ((less, more), (more, less)):
            matcher = AddressMatcher([entry(each, expiry_address=each) for each in (first, second)])
            assert matcher.settings_for(QUEUE, "a.b.c").expiry_address == more, (first, second)


def test_of_equally_specific_entries_the_later_wins() -> None:
    matcher = AddressMatcher([entry("a.>", nack="requeue"), entry("a.#", QUEUE, nack="dead-letter")])
    assert matcher.settings_for(QUEUE, "a.b").nack == "dead-letter"
    assert matcher.settings_for(TOPIC, "a.b").nack == "requeue"


def test_fields_merge_one_by_one_also_the_nested_ones() -> None:
    matcher = AddressMatcher(
        [
            entry("a.b", redelivery__maximum_redeliveries=2, dead_letter_address="DLQ.exact"),
            entry("a.>", redelivery__maximum_redeliveries=9, redelivery__redelivery_delay_ms=50),
            entry(">", prefetch__queue_prefetch=7, dead_letter_address=None, blame="all"),
        ]
    )
    settings = matcher.settings_for(QUEUE, "a.b")
    assert settings.redelivery.maximum_redeliveries == 2
    assert settings.redelivery.redelivery_delay_ms == 50
    assert settings.redelivery.initial_redelivery_delay_ms == 1_000
    assert settings.prefetch.queue_prefetch == 7
    assert settings.dead_letter_address == "DLQ.exact"
    assert settings.blame == "all"
    assert matcher.settings_for(QUEUE, "other").dead_letter_address is None


def test_without_a_matching_entry_the_defaults_apply() -> None:
    assert AddressMatcher([entry("a", nack="requeue")]).settings_for(QUEUE, "b") == AddressSettings()


def test_an_entry_of_one_kind_leaves_the_other_alone() -> None:
    matcher = AddressMatcher([entry(">", TOPIC, prefetch__topic_prefetch=3)])
    assert matcher.settings_for(TOPIC, "t").prefetch.topic_prefetch == 3
    assert matcher.settings_for(QUEUE, "t") == AddressSettings()


def test_explain_names_where_each_value_stands() -> None:
    matcher = AddressMatcher([entry("a.>", nack="requeue", blame="all"), entry("a.b", nack="dead-letter")])
    assert matcher.explain(QUEUE, "a.b") == {
        "nack": Setting("dead-letter", "a.b@nack"),
        "blame": Setting("all", "a.>@blame"),
    }
    assert matcher.explain(QUEUE, "b") == {}


def test_the_cache_is_bounded_and_changes_no_answer() -> None:
    matcher = AddressMatcher([entry("a.*", nack="requeue")], cached_names_max=2)
    for _ in range(2):
        assert [matcher.settings_for(QUEUE, name).nack for name in ("a.1", "b", "a.2", "c")] == [
            "requeue",
            "redeliver",
            "requeue",
            "redeliver",
        ]
    kept = matcher.settings_for(QUEUE, "a.1")
    assert matcher.settings_for(QUEUE, "a.1") is kept
    for name in ("a.2", "a.3"):
        matcher.settings_for(QUEUE, name)
    assert matcher.settings_for(QUEUE, "a.1") is not kept


@pytest.mark.parametrize("path", ["redelivery.initial_redelivery_delay_ms", "redelivery.redelivery_delay_ms"])
def test_a_rollback_waits_where_a_delay_is_set(path: str) -> None:
    matcher = AddressMatcher((AddressEntry(Pattern.parse("a"), BOTH, {path: 50}),))
    assert matcher.settings_for(QUEUE, "a").redelivery.delays_rollback
    assert not matcher.settings_for(QUEUE, "b").redelivery.delays_rollback


def test_a_rollback_does_not_wait_where_that_is_switched_off() -> None:
    entries = (
        AddressEntry(Pattern.parse("a"), BOTH, {"redelivery.redelivery_delay_ms": 50}),
        AddressEntry(Pattern.parse(">"), BOTH, {"redelivery.delays_rollback": False}),
    )
    assert not AddressMatcher(entries).settings_for(QUEUE, "a").redelivery.delays_rollback


def test_one_prefetch_of_queues_is_of_all_messages_unless_both_are_set() -> None:
    one = AddressEntry(Pattern.parse("a"), QUEUE, {"prefetch.queue_prefetch": 6})
    other = AddressEntry(Pattern.parse(">"), QUEUE, {"prefetch.non_persistent_queue_prefetch": 5})
    assert AddressMatcher([one]).settings_for(QUEUE, "a").prefetch.non_persistent_queue_prefetch == 6
    assert AddressMatcher([one, other]).settings_for(QUEUE, "a").prefetch.non_persistent_queue_prefetch == 5
    assert AddressMatcher([other]).settings_for(QUEUE, "a").prefetch.queue_prefetch == 1_000


def test_an_entry_for_one_kind_stands_above_one_for_both() -> None:
    entries = (
        AddressEntry(Pattern.parse(">"), TOPIC, {"nack": "requeue"}),
        AddressEntry(Pattern.parse(">"), BOTH, {"nack": "dead-letter"}),
    )
    matcher = AddressMatcher(entries)
    assert [matcher.settings_for(kind, "a").nack for kind in (QUEUE, TOPIC)] == ["dead-letter", "requeue"]


def test_of_a_group_only_the_most_specific_entry_takes_part() -> None:
    entries = (
        AddressEntry(Pattern.parse("a.>"), BOTH, {"nack": "requeue"}, group="g"),
        AddressEntry(Pattern.parse(">"), BOTH, {"blame": "all", "nack": "dead-letter"}, group="g"),
        AddressEntry(Pattern.parse(">"), BOTH, {"log_non_persistent": True}),
    )
    settings = AddressMatcher(entries).settings_for(QUEUE, "a.b")
    assert (settings.nack, settings.blame, settings.log_non_persistent) == ("requeue", "acked+1", True)
