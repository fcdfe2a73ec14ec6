"""``penstock store`` query, dump, du, rebuild and backup on directories."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.store.plain_words import duration, size
from engine.store.read.export_watermarks import Watermark, write_watermark
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.message import KEYED, PERSISTENT, STOMP, TEXT, Message
from gateway.__main__ import main
from gateway.answers.questions import WrongQuestion
from gateway.answers.store_dump import dump_page
from gateway.process import exit_codes
from tests.support.fakes import START_WALL_MS
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome

CONFIG = "store:\n  segment-bytes: 8 KiB\n  index: {slots: 8, entries: 10}\n"


class Cli:
    """One store of 30 messages, of which each third has a key, and three of octets; and commands on it."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        home = FileHome(StoreSettings(segment_bytes=8192, index_slots=8, index_entries=10))
        number = home.store.open_destination(QUEUE, "orders")
        for body in range(30):
            headers = b"keys:third\na:\\c\n" if body % 3 == 0 else b""
            text = b"%d" % body
            room = b"pad:%s\n" % (b"x" * 400)  # so that there are several segments
            home.store.append(Message(number, STOMP, PERSISTENT | TEXT | KEYED, 4, 0, 0, 0, room, headers, text))
        octets = home.store.open_destination(QUEUE, "octets")
        for sent in (b"\x00\xff", "größer\n2".encode(), b"\x1b[2J"):
            home.store.append(Message(octets, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", sent))
        home.flush()
        home.stop()
        self.store_id = home.store.store_id()
        copy_to(directory, home.files)
        self.data = directory / "data"
        self.out = ""
        self.err = ""
        self._capsys = capsys

    def run(self, *words: str) -> int:
        code = main(["store", *words, "--data", str(self.data)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *words: str) -> list[dict[str, Any]]:
        assert self.run(*words, "--json") == exit_codes.OK, self.err
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, capsys)


def test_query_by_key_pages(cli: Cli) -> None:
    first = cli.json("query", "--key", "third", "--limit", "4", "--body")
    assert [each["body"] for each in first] == ["27", "24", "21", "18"]
    assert first[0]["headers"] == [["keys", "third"], ["a", ":"]]
    before = json.loads(cli.err)["next_before"]
    second = cli.json("query", "--key", "third", "--limit", "40", "--body", "--before", str(before))
    assert [each["body"] for each in second] == ["15", "12", "9", "6", "3", "0"]
    assert cli.err == ""


def test_query_by_id_and_destination(cli: Cli) -> None:
    (found,) = cli.json("query", "--destination", "queue://orders", "--from-offset", "7", "--to-offset", "7", "--body")
    assert found["body"] == "7"
    (same,) = cli.json("query", "--id", found["id"], "--body")
    assert same == found
    assert cli.run("query", "--id", found["id"]) == exit_codes.OK
    assert cli.out.startswith(f"{found['id']}  2023-11-14T22:13:20.000Z  queue://orders  priority 4  entry 7")


def test_a_body_of_octets_is_shown_as_text_where_it_is_one(cli: Cli) -> None:
    assert cli.run("query", "--destination", "octets", "--body") == exit_codes.OK
    assert [line for line in cli.out.splitlines() if not line.startswith("ID:")] == ["G1sySg==", "größer", "2", "AP8="]
    found = cli.json("query", "--destination", "octets", "--body")
    assert [each["body_base64"] for each in found] == ["G1sySg==", "Z3LDtsOfZXIKMg==", "AP8="]
    assert "body" not in found[0]


def test_keys_and_bodies_give_the_terminal_no_orders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = FileHome(StoreSettings())
    number = home.store.open_destination(QUEUE, "q")
    keys, body = b"correlation-id:k\\n\x1b[2J\n", "a\n\x1b]0;title\x07\u202eb\r".encode()
    home.store.append(Message(number, STOMP, PERSISTENT | TEXT | KEYED, 4, 0, 0, 0, b"", keys, body))
    home.flush()
    home.stop()
    copy_to(tmp_path, home.files)
    assert main(["store", "query", "--destination", "q", "--body", "--data", str(tmp_path / "data")]) == exit_codes.OK
    line, *lines = capsys.readouterr().out.splitlines()
    assert line.endswith("keys k\\n\\x1b[2J")
    assert lines == ["a", "\\x1b]0;title\\x07\\u202eb\\r"]


@pytest.mark.parametrize(
    ("time", "expected"), [("2023-11-14T22:13:20Z", 30), ("2023-11-14T23:13:20+01:00", 30), (str(START_WALL_MS + 1), 0)]
)
def test_query_times(cli: Cli, time: str, expected: int) -> None:
    assert len(cli.json("query", "--destination", "orders", "--from", time)) == expected


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--key", "none"], exit_codes.OK, "0 messages, up to log offset"),
        (["--id", "ID:other-3"], exit_codes.FAILED, "is not an id of this store"),
        (["--destination", "nobody"], exit_codes.FAILED, "no destination 'nobody'"),
        ([], exit_codes.USAGE, "asked for is nothing"),
        (["--key", "a", "--limit", "many"], exit_codes.USAGE, "limit is 'many'; allowed is a whole number from 0 on"),
        (["--destination", "ord.*"], exit_codes.FAILED, "no destination 'ord.*' has messages in the log"),
        (["--destination", "o.>"], exit_codes.FAILED, "; a pattern is not allowed here"),
        (
            ["--key", "a", "--from", "2026-02-01", "--to", "5"],
            exit_codes.USAGE,
            "from is '2026-02-01', which is after to",
        ),
        (
            ["--key", "a", "--from-offset", "6", "--to-offset", "5"],
            exit_codes.USAGE,
            "is '6', which is after to-offset",
        ),
    ],
)
def test_query_says_what_is_wrong(cli: Cli, words: list[str], code: int, expected: str) -> None:
    assert cli.run("query", *words) == code
    assert expected in cli.err


def test_dump(cli: Cli) -> None:
    records = cli.json("dump")
    assert [each["type"] for each in records[:3]] == ["snapshot", "destination", "message"]
    assert records[1]["described"]["name"] == "orders"
    assert [each["sequence"] for each in records] == list(range(1, len(records) + 1))
    assert cli.run("dump", "--from", str(records[2]["offset"]), "--to", str(records[4]["offset"])) == exit_codes.OK
    assert [line.split()[1] for line in cli.out.splitlines()] == ["message", "message"]
    assert cli.run("dump", "--to", "99999999") == exit_codes.USAGE
    assert "is not in store" in cli.err
    assert cli.run("dump", "--from", "x") == exit_codes.USAGE
    assert "from is 'x'; allowed is a whole number" in cli.err


def test_a_dump_is_made_of_pages(cli: Cli) -> None:
    records = cli.json("dump")
    reader = StoreReader(cli.data)
    found: list[dict[str, Any]] = []
    asked = {"limit": "7"}
    while True:
        page = dump_page(reader, asked)
        assert len(page["records"]) <= 7
        found += page["records"]
        if not page["next_from"]:
            break
        asked = {"limit": "7", "from": str(page["next_from"]), "to": str(page["until_offset"])}
    assert found == records
    with pytest.raises(WrongQuestion, match="limit is 0; allowed is 1 to"):
        dump_page(reader, {"limit": "0"})
    with pytest.raises(WrongQuestion, match="'until' is not known"):
        dump_page(reader, {"until": "1"})


def test_du(cli: Cli) -> None:
    *segments, total = cli.json("du", "--why")
    assert [each["owner"] for each in segments[0]["pins"]] == ["queue://orders"]
    assert total["index_disk_bytes"] > 0
    assert cli.run("du", "--why") == exit_codes.OK
    assert "    queue://orders: " in cli.out


def test_readers(cli: Cli) -> None:
    assert cli.json("readers") == []
    assert cli.run("readers") == exit_codes.OK
    assert cli.out == "no export and no named stream\n"
    end = StoreReader(cli.data).end().offset
    for mark in (
        Watermark("/lake", parse("orders.>"), end, START_WALL_MS),
        Watermark("billing", parse(">"), 1000, START_WALL_MS - 60_000, is_stream=True),
        Watermark("billing", parse(">"), end - 6000, START_WALL_MS, is_stream=True),
        Watermark("audit", parse("queue://a"), 1024, START_WALL_MS, is_stream=True),
    ):
        write_watermark(cli.data, cli.store_id, mark)
    assert [(each["kind"], each["reader"], each["lag_bytes"]) for each in cli.json("readers")] == [
        ("stream", "audit", end - 1024),
        ("stream", "billing", 6000),
        ("export", "/lake", 0),
    ]
    assert cli.run("readers") == exit_codes.OK
    last, second, first = cli.out.splitlines()
    assert last.startswith("stream audit of queue://a: at log offset 1024 since ")
    assert last.endswith(f", {size(end - 1024)} behind, and stands")
    assert second.endswith(f", 5.9 KiB behind, {duration(6000 * 60_000 // (end - 7000))} at its last pace")
    assert first.endswith(", 0.0 KiB behind")
    assert cli.run("readers", "--forget", "audit") == exit_codes.OK
    assert [each["reader"] for each in cli.json("readers")] == ["billing", "/lake"]
    assert cli.run("readers", "--forget", "/lake") == exit_codes.FAILED
    assert cli.err == "penstock: no stream is named '/lake'; the store knows 'billing'\n"
    words = ["store", "readers", "--forget", "billing", "--http", "http://127.0.0.1:1"]
    assert main(words) == exit_codes.UNREACHABLE


def test_rebuild_makes_what_was_deleted(cli: Cli, tmp_path: Path) -> None:
    shutil.rmtree(cli.data / "index")
    shutil.rmtree(cli.data / "consumequeue")
    config = tmp_path / "penstock.yaml"
    config.write_text(CONFIG)
    (made,) = cli.json("rebuild", "--config", str(config))
    assert made["records"] >= 32
    assert f'protocol="command line" action="rebuild" target="data={cli.data}" result="done"' in cli.err
    assert len(list((cli.data / "index").iterdir())) == 1
    assert cli.run("query", "--key", "third") == exit_codes.OK
    assert len(cli.out.splitlines()) == 10
    assert "read through" not in cli.err
    assert cli.run("verify") == exit_codes.OK


def test_rebuild_keeps_off_a_store_that_is_held(cli: Cli) -> None:
    before = sorted(cli.data.rglob("*"))
    with (cli.data / "lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert cli.run("rebuild") == exit_codes.STORE
    assert "is in use by process" in cli.err
    assert 'action="rebuild"' in cli.err
    assert 'result="done"' not in cli.err
    assert sorted(cli.data.rglob("*")) == before


def test_backup(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    (made,) = cli.json("backup", str(target))
    assert made["directory"] == str(target)
    assert cli.run("backup", str(target)) == exit_codes.FAILED
    assert "not empty" in cli.err
    cli.data = target
    assert len(cli.json("query", "--key", "third")) == 10


@pytest.mark.parametrize("command", [["query", "--key", "a"], ["dump"], ["du"], ["rebuild"], ["backup", "x"]])
def test_a_directory_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert main(["store", *command, "--data", str(tmp_path)]) == exit_codes.STORE
    assert "is not a store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.damages_store("a segment is replaced")
def test_a_file_that_may_not_be_read_is_named(cli: Cli) -> None:
    segment = cli.data / "commitlog" / "00000000000000000000.log"
    segment.unlink()
    segment.mkdir()  # as root may read every file
    assert cli.run("query", "--key", "third") == exit_codes.FAILED
    assert cli.err == f"penstock: {segment}: Is a directory\n"
