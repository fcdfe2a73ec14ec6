"""What all tables of foreign options have in common, and the mechanism itself."""

from __future__ import annotations

import pytest

from config import destination_options, jms_options
from config.options import (
    BinaryBytes,
    Option,
    OptionError,
    Table,
    all_listed,
    honoured,
    listed,
    refused,
    table,
    unknown_option,
)
from config.sources import activemq_options, artemis_options, uri_options
from config.values import Boolean, Integer

TABLES: dict[str, Table] = {
    "redelivery": jms_options.REDELIVERY,
    "prefetch": jms_options.PREFETCH,
    "consumer": destination_options.CONSUMER,
    "producer": destination_options.PRODUCER,
    "uri": uri_options.OPTIONS,
    "failover": uri_options.FAILOVER,
    **activemq_options.tables(),
    **artemis_options.tables(),
}
ALL = [pytest.param(option, id=f"{name}-{option.name}") for name, known in TABLES.items() for option in known.values()]


@pytest.mark.parametrize("option", ALL)
def test_an_option_is_honoured_or_says_why_not(option: Option) -> None:
    assert option.text
    if option.status == "honoured":
        # Without a kind, the reader has code of its own for it.
        assert option.kind is None or option.values(option.example)
    elif option.status == "refused":
        with pytest.raises(OptionError) as caught:
            option.values("x")
        assert str(caught.value) == f"{option.name}: {option.text}"
    else:
        assert option.values("anything at all") == {}


@pytest.mark.parametrize("option", [case for case in ALL if isinstance(case.values[0], Option) and case.values[0].kind])
def test_a_bad_value_is_named_with_what_is_allowed(option: Option) -> None:
    with pytest.raises(OptionError) as caught:
        option.values("\x00")
    assert option.kind is not None
    assert str(caught.value).startswith(f"{option.name}: '\\x00'")
    assert str(caught.value).endswith(f"allowed is {option.kind.allowed}")


def test_several_paths_take_the_same_value() -> None:
    assert honoured("a", Integer(0, 9), "1", "x.y", "z").values("7") == {"x.y": 7, "z": 7}


def test_space_around_a_value_does_not_matter() -> None:
    assert honoured("a", Boolean(), "true", "x").values(" true\n") == {"x": True}


def test_an_option_stands_in_a_table_once() -> None:
    with pytest.raises(AssertionError, match="twice"):
        table(listed("a", "why"), refused("a", "why"))


def test_several_options_may_share_a_reason() -> None:
    assert [(option.name, option.text) for option in all_listed("why", "a", "b")] == [("a", "why"), ("b", "why")]


def test_the_nearest_option_is_named() -> None:
    assert str(unknown_option("queue-prefech", ["queuePrefetch", "all"])) == (
        "queue-prefech: unknown option (did you mean 'queuePrefetch'?); known are queuePrefetch, all"
    )
    assert str(unknown_option("x", ["all"])) == "x: unknown option; known are all"


def test_more_options_than_a_line_holds_are_counted() -> None:
    assert str(unknown_option("queue-prefech", ["queuePrefetch", *map(str, range(60))])) == (
        "queue-prefech: unknown option (did you mean 'queuePrefetch'?); known are 61, which 'penstock check-config "
        "--options' lists"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 mb", 10 * 1024**2),
        ("64kb", 65536),
        ("1g", 1024**3),
        ("1 GB", 1024**3),
        ("7", 7),
        ("10MiB", 10 * 1024**2),
        ("-1", -1),
    ],
)
def test_sizes_are_powers_of_1024(text: str, expected: int) -> None:
    assert BinaryBytes(0, 1024**4, unlimited=True).parse(text) == expected
