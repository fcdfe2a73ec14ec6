"""The simulation must be able to fail: each planted bug is found within the seeds of a default run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.world.bodies import Violation
from tests.support.world.bugs import (
    AccountingLeak,
    CommitIgnored,
    CountForgotten,
    CrcUnchecked,
    CreditGivenTwice,
    EndsUntold,
    ExclusiveShared,
    GroupsForgotten,
    IdleForgotten,
    NobodyAdmitted,
    OrderForgotten,
    ReceiptBeforeSync,
    RefusalsConfirmedEarly,
    ReplayBeginsLate,
    SelectorIgnored,
    SettlementLost,
    ShareForgotten,
    TimesLost,
    WindowOffByOne,
)
from tests.support.world.known_seeds import known_first
from tests.support.world.profile import profile_for
from tests.support.world.seeds import SEEDS
from tests.support.world.world import Bug, World

pytestmark = pytest.mark.interpreted


def first_found(make_bug: type[Bug], kind: str, compares_store: bool, has_short_turns: bool = False) -> str:
    """Return what a seed that fails says, "" if none does.  has_short_turns: in all of them."""
    for seed in known_first(range(1, SEEDS[kind] + 1)):
        is_stomp, has_amqp = kind != "broker", kind == "amqp"
        profile = profile_for(seed, is_stomp, has_amqp)
        if has_short_turns:
            profile = replace(profile, has_short_turns=True)
        world = World(seed, profile, make_bug(), is_stomp, compares_store, has_amqp)
        try:
            world.run()
        except Violation as violation:
            return str(violation)
    return ""


@pytest.mark.parametrize("kind", ["broker", "stomp"])
@pytest.mark.parametrize(
    ("make_bug", "says"),
    [
        (ReceiptBeforeSync, "no state that the store was in"),
        (SettlementLost, "no state that the store was in"),
        (CountForgotten, "no state that the store was in"),
        (WindowOffByOne, "exceeds a window"),
        (AccountingLeak, "counted are"),
        (ShareForgotten, "octets unsettled, allowed are"),
        (NobodyAdmitted, "which has room|addresses that are full|turns never end"),
        (CrcUnchecked, ""),
        (CommitIgnored, "no state that the store was in"),
        (ReplayBeginsLate, "and leaves out|not drained"),
        (EndsUntold, "hand-overs have no end|begins again"),
        (TimesLost, "times until acknowledged, the tracer has"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_planted_bug_is_found(make_bug: type[Bug], says: str, kind: str) -> None:
    told = first_found(make_bug, kind, compares_store=True)
    assert told
    assert any(one in told for one in says.split("|"))


@pytest.mark.parametrize(
    ("make_bug", "says"),
    [
        (ReceiptBeforeSync, "no state that the store was in"),
        (SettlementLost, "no state that the store was in"),
        (WindowOffByOne, "exceeds a window"),
        (NobodyAdmitted, "which has room|addresses that are full|turns never end"),
        (ReplayBeginsLate, "and leaves out|not drained"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_planted_bug_is_found_among_amqp_clients(make_bug: type[Bug], says: str) -> None:
    told = first_found(make_bug, "amqp", compares_store=True)
    assert told
    assert any(one in told for one in says.split("|"))


def test_a_confirmation_of_half_a_refusal_is_found() -> None:
    told = first_found(RefusalsConfirmedEarly, "broker", compares_store=True, has_short_turns=True)
    assert "confirmed, but the store was never told" in told


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
    told = first_found(make_bug, "broker", compares_store=False)
    assert told
    assert says in told


@pytest.mark.parametrize(
    ("make_bug", "says"),
    [
        (CreditGivenTwice, "octets exceed a window of"),
        (SelectorIgnored, "goes to a consumer that asks for"),
        # Whichever is seen first: a group with two consumers, or its messages overtaking each other.
        (GroupsForgotten, ("goes to one consumer while another has", "on queue://regrouped is delivered while")),
        (OrderForgotten, "which comes before it, waits"),
        (IdleForgotten, "durable subscription to"),
        # Likewise: an exclusive queue with two consumers, or its messages overtaking each other.
        (
            ExclusiveShared,
            ("goes to one consumer while another one of an exclusive queue has", "on queue://alone is delivered while"),
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_planted_bug_breaks_what_consumers_were_promised(make_bug: type[Bug], says: str | tuple[str, ...]) -> None:
    found = first_found(make_bug, "broker", compares_store=False)
    assert any(words in found for words in ((says,) if isinstance(says, str) else says)), found
