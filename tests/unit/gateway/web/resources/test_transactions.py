"""``/api/transactions``: what it takes and what it answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.web import Deciding, serving

PATH = "/api/transactions"


async def test_lists() -> None:
    source = Deciding()
    async with serving(transactions=source) as client:
        answer = await client.get(f"{PATH}?limit=7")
        assert (await answer.json())["transactions"][0]["xid"] == "1-aa-"
    assert source.asked == [(7,)]


@pytest.mark.parametrize(("word", "outcome"), [("commit", "committed"), ("rollback", "rolled back")])
async def test_decides(word: str, outcome: str) -> None:
    source = Deciding()
    async with serving(transactions=source) as client:
        answer = await client.post(f"{PATH}/{word}", json={"xid": "1-aa-"})
        assert (answer.status, await answer.json()) == (200, {"xid": "1-aa-", "outcome": outcome})
    assert source.asked == [("1-aa-", word == "commit", "address 127.0.0.1")]


async def test_forgets() -> None:
    source = Deciding()
    async with serving(transactions=source) as client:
        answer = await client.post(f"{PATH}/forget", json={"xid": "1-cc-"})
        assert (answer.status, await answer.json()) == (200, {"xid": "1-cc-", "outcome": "forgotten"})
    assert source.asked == [("1-cc-", "address 127.0.0.1")]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"xid": "1-bb-"}, 404, "no prepared transaction 1-bb-"),
        ({"xid": "bb"}, 400, "'bb' is no xid; allowed is FORMAT-TRANSACTION-BRANCH"),
        ({"xid": "9999999999-aa-"}, 400, "is no xid"),
        ({"xid": 1}, 400, "xid is 1; allowed is a text"),
        ({}, 400, "xid"),
    ],
)
async def test_refuses(body: dict[str, Any], status: int, text: str) -> None:
    async with serving() as client:
        answer = await client.post(f"{PATH}/commit", json=body)
        assert answer.status == status
        assert text in (await answer.json())["detail"]
