"""``penstock subscriptions`` against the routes that it asks."""

from __future__ import annotations

import asyncio

import pytest

from gateway.__main__ import main
from gateway.process import exit_codes
from tests.support.web import Subscribed, serving


async def answered(source: Subscribed, *words: str) -> int:
    """Run the command against a gateway with this source; return its exit code."""
    async with serving(subscriptions=source) as client:
        url = str(client.make_url("")).rstrip("/")
        return await asyncio.to_thread(main, ["subscriptions", *words, "--http", url])


async def test_lists_and_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    source = Subscribed()
    assert await answered(source, "list") == exit_codes.OK
    found = capsys.readouterr()
    assert found.out == (
        "bills of client id c  topic://t  0 consumers, 7 messages waiting, selector a = 1, owner ann\n"
        "used\\n  topic://t  1 consumer, 1 message waiting\n"
    )
    assert found.err == "3 durable subscriptions; 1 are not shown, TEXT narrows the list\n"
    assert await answered(source, "list", "a&b") == exit_codes.OK
    capsys.readouterr()
    assert await answered(source, "delete", "bills", "--client-id", "c") == exit_codes.OK
    assert await answered(source, "delete", "bills", "--json") == exit_codes.OK
    assert capsys.readouterr().out == 'deleted bills\n{"client_id": "", "deleted": "bills"}\n'
    assert source.asked[1:] == [
        ("a&b", 1_000),
        ("c", "bills", "address 127.0.0.1"),
        ("", "bills", "address 127.0.0.1"),
    ]


@pytest.mark.parametrize(("name", "text"), [("used", "has 1 consumers"), ("x", "there is no subscription 'x'")])
async def test_what_cannot_be_deleted(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await answered(Subscribed(), "delete", name) == exit_codes.FAILED
    assert text in capsys.readouterr().err
