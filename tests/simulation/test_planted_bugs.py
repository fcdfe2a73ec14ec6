"""The simulation must be able to fail: each planted bug is found within the seeds that a default run takes."""

from __future__ import annotations

import pytest

from tests.support.world import Bug, World
from tests.support.world_bodies import Violation
from tests.support.world_bugs import (
    AccountingLeak,
    CommitIgnored,
    CountForgotten,
    CrcUnchecked,
    CreditGivenTwice,
    ExclusiveShared,
    GroupsForgotten,
    NobodyAdmitted,
    OrderForgotten,
    ReceiptBeforeSync,
    SelectorIgnored,
    SettlementLost,
    WindowOffByOne,
)
from tests.support.world_seeds import BROKER_SEEDS, STOMP_SEEDS


def first_found(make_bug: type[Bug], is_stomp: bool, compares_store: bool) -> str:
    """Return what the first seed that fails says, "" if none does."""
    for seed in range(1, (STOMP_SEEDS if is_stomp else BROKER_SEEDS) + 1):
        try:
            World(seed, bug=make_bug(), is_stomp=is_stomp, compares_store=compares_store).run()
        except Violation as violation:
            return str(violation)
    return ""


@pytest.mark.parametrize("is_stomp", [False, True], ids=["broker", "stomp"])
@pytest.mark.parametrize(
    ("make_bug", "says"),
    [
        (ReceiptBeforeSync, "no state that the store was in"),
        (SettlementLost, "no state that the store was in"),
        (CountForgotten, "no state that the store was in"),
        (WindowOffByOne, "exceeds a window"),
        (AccountingLeak, "counted are"),
        (NobodyAdmitted, "which has room"),
        (CrcUnchecked, ""),
        (CommitIgnored, "no state that the store was in"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_planted_bug_is_found(make_bug: type[Bug], says: str, is_stomp: bool) -> None:
    told = first_found(make_bug, is_stomp, compares_store=True)
    assert told
    assert says in told


@pytest.mark.parametrize(
    ("make_bug", "says"),
    [
        (ReceiptBeforeSync, "is lost in a stop"),
        (SettlementLost, "comes back after a stop"),
        (CountForgotten, "failed"),
        (CommitIgnored, "half of a transaction"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_planted_bug_breaks_what_clients_were_promised(make_bug: type[Bug], says: str) -> None:
    told = first_found(make_bug, is_stomp=False, compares_store=False)
    assert told
    assert says in told


@pytest.mark.parametrize(
    ("make_bug", "says"),
    [
        (CreditGivenTwice, "octets exceed a window of"),
        (SelectorIgnored, "goes to a consumer that asks for"),
        (GroupsForgotten, "goes to one consumer while another has"),
        (OrderForgotten, "which comes before it, waits"),
        (ExclusiveShared, "goes to one consumer while another one of an exclusive queue has"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_planted_bug_breaks_what_consumers_were_promised(make_bug: type[Bug], says: str) -> None:
    assert says in first_found(make_bug, is_stomp=False, compares_store=False)
