"""How many connections fit into the files that a process may open."""

from __future__ import annotations

import resource

import pytest

from gateway.process.descriptors import RESERVED_DESCRIPTORS, connections_within


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
