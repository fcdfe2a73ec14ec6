"""``penstock transactions`` against the routes that it asks."""

from __future__ import annotations

import asyncio

import pytest

from gateway.__main__ import main
from gateway.process import exit_codes
from tests.support.web import Deciding, serving


async def answered(source: Deciding, *words: str) -> int:
    """Run the command against a gateway with this source; return its exit code."""
    async with serving(transactions=source) as client:
        url = str(client.make_url("")).rstrip("/")
        return await asyncio.to_thread(main, ["transactions", *words, "--http", url])


async def test_lists_and_decides(capsys: pytest.CaptureFixture[str]) -> None:
    source = Deciding()
    assert await answered(source, "list") == exit_codes.OK
    found = capsys.readouterr()
    assert found.out == (
        "1-aa-  prepared 1970-01-01T00:00:00.000Z  sends 1, acknowledged 0, 9 octets\n"
        "1-cc-  committed by an operator 1970-01-01T00:00:00.000Z\n"
    )
    assert found.err == "1 prepared transaction\n"
    assert await answered(source, "commit", "1-aa-") == exit_codes.OK
    assert await answered(source, "rollback", "1-aa-", "--json") == exit_codes.OK
    assert capsys.readouterr().out == 'committed 1-aa-\n{"xid": "1-aa-", "outcome": "rolled back"}\n'
    assert await answered(source, "forget", "1-cc-") == exit_codes.OK
    assert capsys.readouterr().out == "forgotten 1-cc-\n"
    assert [asked[1] for asked in source.asked[1:]] == [True, False, "address 127.0.0.1"]


async def test_an_unknown_one_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert await answered(Deciding(), "commit", "1-bb-") == exit_codes.FAILED
    assert "no prepared transaction 1-bb-" in capsys.readouterr().err
