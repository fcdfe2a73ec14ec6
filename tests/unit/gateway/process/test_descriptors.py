"""How many connections fit into the files that a process may open."""

from __future__ import annotations

import resource

import pytest

from gateway.process.descriptors import CONNECTIONS_LEAST, RESERVED_DESCRIPTORS, connections_within, shortage


@pytest.mark.parametrize(
    ("wanted", "limit", "allowed"),
    [
        (10_000, 1_048_576, 10_000),
        (10_000, 1_024, 1_024 - RESERVED_DESCRIPTORS),
        (10_000, 64, 1),
        (10_000, resource.RLIM_INFINITY, 10_000),
    ],
)
def test_the_store_keeps_its_share(wanted: int, limit: int, allowed: int) -> None:
    assert connections_within(wanted, limit) == allowed


LEAST = RESERVED_DESCRIPTORS + CONNECTIONS_LEAST


@pytest.mark.parametrize(
    ("wanted", "limit", "is_short"),
    [
        (10_000, 300, True),
        (10_000, LEAST - 1, True),
        (10_000, LEAST, False),
        (3, RESERVED_DESCRIPTORS + 2, True),
        (3, RESERVED_DESCRIPTORS + 3, False),
        (10_000, resource.RLIM_INFINITY, False),
    ],
)
def test_too_few_files_are_a_reason_not_to_start(wanted: int, limit: int, is_short: bool) -> None:
    assert bool(shortage(wanted, limit)) is is_short


def test_the_reason_names_what_was_seen_and_what_is_needed() -> None:
    assert shortage(10_000, 300) == (
        f"this process may open 300 files; {LEAST} at least are needed: {RESERVED_DESCRIPTORS} are reserved, "
        f"and {CONNECTIONS_LEAST} for connections (ulimit -n, LimitNOFILE= of a service)"
    )
