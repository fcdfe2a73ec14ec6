"""``/api/subscriptions``: what it takes and what it answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.web import Subscribed, serving

PATH = "/api/subscriptions"


async def test_lists() -> None:
    source = Subscribed()
    async with serving(subscriptions=source) as client:
        answer = await client.get(f"{PATH}?search=b&limit=7")
        assert (await answer.json())["subscriptions"][0]["name"] == "bills"
        assert (await client.get(PATH)).status == 200
    assert source.asked == [("b", 7), ("", 100)]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"name": "bills", "client_id": "c"}, 200, '"deleted": "bills"'),
        ({"name": "bills"}, 200, '"client_id": ""'),
        ({"name": "used"}, 409, "has 1 consumers"),
        ({"name": "other"}, 404, "there is no subscription 'other'"),
        ({"client_id": "c"}, 400, "name"),
        ({"name": 1}, 400, "name is 1; allowed is a text"),
    ],
)
async def test_deletes(body: dict[str, Any], status: int, text: str) -> None:
    source = Subscribed()
    async with serving(subscriptions=source) as client:
        answer = await client.post(f"{PATH}/delete", json=body)
        assert answer.status == status
        assert text in await answer.text()
    assert source.asked == ([(body.get("client_id", ""), "bills", "address 127.0.0.1")] if status == 200 else [])
