"""``penstock top``: its screen, its keys, and its answers from a gateway of fakes."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from gateway.__main__ import main
from gateway.cli.operation.top import BARS_MAX, COLUMNS, HEAD_LINES, SORTED, Top, _columns, bars
from gateway.process import exit_codes
from tests.support.engine.snapshots import broker, destination
from tests.support.web import listening

SIZE = os.terminal_size((140, HEAD_LINES + 10))


def test_bars_are_the_largest_of_their_points() -> None:
    assert bars([None, 0.0, 1.0, 2.0, 4.0, 8.0], 6) == " ▁▂▃▅█"
    assert bars([None, 0.0, 8.0, 2.0], 2) == "▁█"
    assert bars([None] * 360, BARS_MAX) == " " * BARS_MAX
    assert bars([0.0] * 360, BARS_MAX) == "▁" * BARS_MAX


async def test_the_screen() -> None:
    stats = broker(
        *(destination(f"orders.{number:02}") for number in range(25)), accepting=False, blocked={5: "memory"}
    )
    async with listening(stats) as endpoint:
        top = Top(str(endpoint), None, "", "name")
        lines = await asyncio.to_thread(top.screen, SIZE)
        assert lines[0].startswith("Store disk full at commitlog/0  Memory 0.0 of 256 MiB  Connections 8")
        assert [line.split()[0] for line in lines[1:4]] == ["Depth", "In/s", "Out/s"]
        assert "connection 5 waits for 2 s: memory" in lines
        titles = next(number for number, line in enumerate(lines) if line.startswith("Destination▲"))
        first = lines[titles + 1]
        assert first.split()[:5] == ["queue://orders.00", "6", "2", "1", "3"]
        assert lines[-1].startswith("1 to 8 of 25")
        assert len(lines) <= SIZE.lines
        assert len({len(line) for line in lines[titles : titles + 8]}) == 1


def test_a_narrow_terminal_has_fewer_columns() -> None:
    assert [key for _, key, _ in _columns(80)] == ["depth", "in_flight", "delayed", "consumers"]
    assert len(_columns(20)) == 1
    assert _columns(200) == COLUMNS


async def test_keys_turn_the_page_and_sort() -> None:
    stats = broker(*(replace(destination(f"q{number:02}"), expired=number) for number in range(25)))
    async with listening(stats) as endpoint:
        top = Top(str(endpoint), None, "", "name")
        assert (await asyncio.to_thread(top.screen, SIZE))[-1].startswith("1 to 10 of 25")
        for _ in range(9):
            assert top.press("n")
        assert (await asyncio.to_thread(top.screen, SIZE))[-1].startswith("21 to 25 of 25"), "there is no page beyond"
        assert top.press("p")
        assert (await asyncio.to_thread(top.screen, SIZE))[-1].startswith("11 to 20 of 25")
        for column in SORTED:
            assert top.press("s")
            assert top.sort == column
        lines = await asyncio.to_thread(top.screen, SIZE)
        assert any("Expired▼" in line for line in lines)
        assert any(line.startswith("queue://q24") for line in lines)
        assert top.press("s")
        assert (top.sort, top.press("")) == ("depth", True)
        assert not top.press("q")


async def test_a_name_cannot_command_the_terminal() -> None:
    async with listening(broker(destination("a\x1b[2J" + "b" * 300))) as endpoint:
        lines = await asyncio.to_thread(Top(str(endpoint), None, "", "depth").screen, os.terminal_size((100, 20)))
    assert not any("\x1b" in line for line in lines)
    assert any(line.startswith(r"queue://a\x1b[") for line in lines)
    assert max(len(line) for line in lines) <= 100


async def test_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening() as endpoint:
        code = await asyncio.to_thread(main, ["top", "--once", "--http", str(endpoint), "--search", "ord"])
    assert code == exit_codes.OK
    assert "queue://orders" in capsys.readouterr().out


async def test_no_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    async with listening() as endpoint:
        url = str(endpoint)
    assert await asyncio.to_thread(main, ["top", "--once", "--http", url]) == exit_codes.UNREACHABLE
    assert "cannot reach" in capsys.readouterr().err
