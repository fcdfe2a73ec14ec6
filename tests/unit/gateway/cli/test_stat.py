"""``penstock stat`` against a small HTTP server."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from typing import Any

import pytest

from engine.values.broker_stats import BranchStats, ScheduleStats
from gateway.__main__ import main
from gateway.cli.operation.stat import LATE_READERS_MOST, table
from gateway.cli.shared.http_client import HttpError, fetch
from gateway.process import exit_codes
from gateway.web.samples.rates import RateSampler
from tests.support.answering import answering
from tests.support.engine.snapshots import broker, destination, rates_after, stat_document


def document() -> dict[str, Any]:
    before = broker(destination("orders", enqueued=0, acknowledged=0))
    stats = broker(destination("orders"), destination("news", "topic"), accepting=False, blocked={5: "memory limit"})
    return stat_document(stats, rates_after((0.0, before), (1.0, stats)))


def test_the_table() -> None:
    lines = table(document()).splitlines()
    assert lines[0].split() == [
        "DESTINATION",
        "DEPTH",
        "IN-FLIGHT",
        "DELAYED",
        "CONSUMERS",
        "IN/s",
        "OUT/s",
        "ACK/s",
        "ENQUEUED",
        "ACKNOWLEDGED",
        "REDELIVERED",
        "DEAD",
        "EXPIRED",
    ]
    assert lines[1].split() == ["queue://orders", "6", "2", "1", "3", "10", "4", "4", "10", "4", "1", "5", "6"]
    assert lines[2].split()[0] == "topic://news"
    assert len({len(line) for line in lines[:3]}) == 1
    assert "connections 8, consumers 1, memory 0.0 of 256 MiB" in lines
    assert "STORE NOT ACCEPTING: disk full at commitlog/0" in lines
    assert "blocked: connection 5 for 1.5 s: memory limit" in lines
    assert "full: queue://orders (DROP): 120 of 100 octets" in lines
    assert "slow: consumer 1 of queue://orders, 2 in flight" in lines


def test_names_and_reasons_give_the_terminal_no_orders() -> None:
    stats = broker(destination("a\u202eb"), accepting=False, blocked={5: "full: \x1b[2J"})
    text = table(stat_document(stats, rates_after((0.0, broker()), (1.0, stats))))
    assert "queue://a\\u202eb " in text
    assert text.isascii() and "\x1b" not in text


def test_what_is_wrong_with_a_store_that_takes_messages_is_said_too() -> None:
    told = document()
    told["store"] = {"is_accepting": True, "reason": "queue://a: its checksum does not match", "retention": ""}
    assert "STORE: queue://a: its checksum does not match" in table(told).splitlines()
    told["store"] = {"is_accepting": True, "reason": "", "retention": "it waits for an export"}
    assert "STORE" not in table(told)
    assert "RETENTION: it waits for an export" in table(told).splitlines()


def test_what_is_scheduled_is_said() -> None:
    due_ms = 1_700_000_000_000
    stats = replace(broker(), schedule=ScheduleStats(5, due_ms, 0, 9, 3, 1))
    assert "scheduled 5, the next one for 2023-11-14T22:13:20Z" in table(stat_document(stats, RateSampler()))
    stats = replace(broker(), schedule=ScheduleStats(5, due_ms, 2, 9, 3, 1))
    assert "22:13:20Z; 2 are past due" in table(stat_document(stats, RateSampler()))
    stats = replace(broker(), schedule=ScheduleStats(5, due_ms, 2, 9, 3, 1, held=2, held_by="memory: queue://q"))
    assert "2 are past due, 2 held back: memory: queue://q" in table(stat_document(stats, RateSampler()))
    assert "scheduled" not in table(stat_document(broker(), RateSampler()))


def test_what_is_prepared_is_said() -> None:
    stats = replace(broker(), branches=BranchStats(2, 9, 1_700_000_000_000))
    told = table(stat_document(stats, RateSampler()))
    assert "prepared transactions 2, the oldest since 2023-11-14T22:13:20Z" in told
    assert "prepared" not in table(stat_document(broker(), RateSampler()))


def test_rates_that_are_not_known_yet() -> None:
    lines = table(stat_document(broker(destination("a")), RateSampler())).splitlines()
    assert lines[1].split()[5:8] == ["-", "-", "-"]


def test_stat(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PASSWORD", "p:w")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    seen: list[str | None] = []
    with answering(200, json.dumps(document()).encode(), seen) as url:
        assert main(["stat", "--http", url + "/", "--user", "alice"]) == exit_codes.OK
    assert seen == ["/api/stat", "Basic YWxpY2U6cDp3", "/api/store/readers", "Basic YWxpY2U6cDp3"]
    assert "queue://orders" in capsys.readouterr().out


def test_who_is_behind_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    late = {
        "kind": "stream",
        "reader": "billing",
        "destination": "orders.>",
        "to_offset": 100,
        "lag_bytes": 2_048,
        "read_ms": 1_700_000_000_000,
        "bytes_per_second": 1_024,
        "eta_ms": 2_000,
    }
    there = late | {"kind": "export", "reader": "/lake", "lag_bytes": 0}
    readers = [there, *(late | {"reader": f"stream {number}"} for number in range(LATE_READERS_MOST)), late]
    with answering(200, json.dumps(document() | {"readers": readers}).encode()) as url:
        assert main(["stat", "--http", url]) == exit_codes.OK
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == "..." and len([line for line in shown if line.startswith("stream ")]) == LATE_READERS_MOST
    (first,) = [line for line in shown if line.startswith("stream stream 0 of orders.>: at log offset 100 since ")]
    assert first.endswith(", 2.0 KiB behind, 2 seconds at its last pace")


def test_stat_as_json_and_by_a_tcp_uri(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str | None] = []
    with answering(200, json.dumps(document()).encode(), seen) as url:
        assert main(["stat", "--json", "--http", url.replace("http://", "tcp://")]) == exit_codes.OK
    assert seen == ["/api/stat", None]
    assert json.loads(capsys.readouterr().out) == document()


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (401, b"wrong or no credentials\n", "answers 401: wrong or no credentials"),
        (200, b"<html>", "does not answer as a Penstock gateway"),
        (200, b"{}", "does not answer as a Penstock gateway"),
        (200, b"\xff", "does not answer as a Penstock gateway"),
    ],
)
def test_no_useful_answer(status: int, body: bytes, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(status, body) as url:
        assert main(["stat", "--http", url]) == exit_codes.UNREACHABLE
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["purge q", "delete q", "pause q", "retry", "reload", "transactions list", "schedule list", "top --once"]
    + [f"store {what}" for what in ("query --key k", "dump", "du", "verify", "backup copy")]
    + ["schedule cancel 1", "why message m", "why reader r", "explain q", "stat", "store readers", "store rebuild"]
    + [f"transactions {what} 1" for what in ("commit", "rollback", "forget")],
)
def test_the_answers_of_another_server(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, b'{"ok": true}') as url:
        for form in ([], ["--json"] if not command.startswith("top") else []):
            assert main([*command.split(), "--http", url, *form]) == exit_codes.UNREACHABLE
            out, err = capsys.readouterr()
            assert out == "" and "does not answer as a Penstock gateway" in err


def test_a_server_that_takes_too_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(HttpError, match=r"has not answered within 0\.01 s, and may still do what it was asked for"):
            fetch(url, "/api/stat", None, time_s=0.01)


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert main(["stat", "--http", url]) == exit_codes.UNREACHABLE
    assert capsys.readouterr().err == f"penstock: cannot reach {url}: Connection refused\n"


def test_a_url_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stat", "--http", "file:///etc/passwd"]) == exit_codes.USAGE
    assert "allowed is http://HOST:PORT" in capsys.readouterr().err
