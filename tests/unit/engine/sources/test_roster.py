"""Rosters: a walk returns each member that stays, whatever comes and goes meanwhile."""

from __future__ import annotations

import random

import pytest

from engine.sources.roster import Roster


def roster_of(count: int) -> Roster[int, str]:
    roster: Roster[int, str] = Roster({})
    for number in range(count):
        roster.add(number, f"m{number}")
    return roster


def test_a_reading_returns_what_was_present_when_it_began() -> None:
    roster = Roster({1: "a", 2: "b"})
    roster.add(3, "c")
    walk = roster.walk()
    roster.add(4, "d")
    assert next(walk) == "a"
    assert roster.pop(2) == "b" and roster.pop(2) is None
    assert list(walk) == [None, "c"]
    assert list(roster.walk()) == ["a", None, "c", "d"]


def test_walks_share_one_list() -> None:
    roster = roster_of(10)
    keys = roster.keys
    walks = [roster.walk() for _ in range(3)]
    roster.add(10, "m10")
    assert roster.keys is keys
    assert [list(walk) for walk in walks] == [[f"m{number}" for number in range(10)]] * 3


def test_a_new_list_begins_when_most_members_have_gone() -> None:
    roster = roster_of(10)
    walk = roster.walk()
    for number in range(6):
        roster.pop(number)
    assert roster.keys == [6, 7, 8, 9]
    assert [member for member in walk if member is not None] == ["m6", "m7", "m8", "m9"]


@pytest.mark.parametrize("seed", range(20))
def test_what_stays_is_read_in_order_and_gone_keys_are_a_minority(seed: int) -> None:
    draw = random.Random(seed)
    roster = roster_of(draw.randrange(50))
    walks = []
    for number in range(1_000, 2_000):
        if draw.random() < 0.5 or not roster.members:
            roster.add(number, f"m{number}")
        else:
            gone = draw.choice(list(roster.members))
            roster.pop(gone)
            if draw.random() < 0.2:
                roster.add(gone, f"m{gone}")
        if draw.random() < 0.02:
            walks.append((roster.walk(), set(roster.members.values())))
        assert len(roster.keys) <= 2 * len(roster.members)
    for walk, began in walks:
        found = [member for member in walk if member is not None]
        assert began & set(roster.members.values()) <= set(found) <= began | set(roster.members.values())
    assert [one for one in roster.walk() if one is not None][-1:] == list(roster.members.values())[-1:]
