"""The store of a gateway, read by ranges over HTTP: the rows of its directory, or an error that says why not."""

from __future__ import annotations

import base64
import json
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time_ns
from typing import Final

import pytest

from config.matching import BOTH, Pattern
from config.model import ServerConfig
from config.permissions import Action, Permission
from config.scram import hash_password
from engine.store.disk.files import RealFiles
from engine.store.format.file_heads import Checkpoint, pack_checkpoint
from engine.store.read.export_watermarks import Watermark
from engine.store.read.leases import Lease, read_leases
from engine.store.read.reader import StoreReader
from engine.values.errors import RangeGone
from gateway.cli.dispatch import execute
from gateway.logins.login_check import LoginCheck
from gateway.process import exit_codes
from spark_bridge.arrow.schema import TABLES
from spark_bridge.errors import LakeError, ListOutdated, TargetError
from spark_bridge.export import NO_SPARK, Request, export
from spark_bridge.files.choice import files_at, store_at
from spark_bridge.files.gateway_store import GatewayStore
from spark_bridge.files.growing_store import GrowingStore
from spark_bridge.read.scan import plan_read, scan
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore
from tests.support.store.served_store import HOUR_MS, served

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

LIMIT_NS: Final = 60 * 10**9
GUARDED = LoginCheck(ServerConfig(users={"ann lee": tuple(hash_password("p:@ss", 4096))}))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=1 << 16) as sample:
        orders, prices = sample.destination("orders"), sample.destination("prices")
        for number in range(300):
            sample.now_ms = DAY_ONE_MS + number * 1000
            sample.send((orders, prices)[number % 2], b"x" * 500, priority=4 + number % 3)
        sample.settle(orders, (0, 40))
        sample.publish(is_clean=True)
        yield sample


def test_the_rows_are_those_of_the_directory(store: SampleStore) -> None:
    def work(url: str) -> None:
        for table in TABLES:
            assert scan(url, table=table).read_all() == scan(str(store.directory), table=table).read_all()
        sent = pickle.loads(pickle.dumps(plan_read({"path": url})))  # to a worker of Spark
        assert sum(len(batch) for task in range(sent.tasks()) for batch in sent.rows(task)) == 300
        where = f"destination = 'queue://orders' AND store_time >= {DAY_ONE_MS + 250_000}"
        assert len(scan(f"{url}/", ["log_offset", "delivery_state"], where=where).read_all()) == 25

    served(store, work)


def kept(store: SampleStore) -> list[Lease]:
    return read_leases(RealFiles(), str(store.directory), store.store_id, time_ns() // 1_000_000, HOUR_MS)


def test_a_lease_is_renewed_until_it_ends(store: SampleStore) -> None:
    def work(url: str) -> None:
        lease = GatewayStore(url).lease("the export to /lake", 700, 1_500)
        first, *others = kept(store)
        assert (lease.note, first.from_offset, others) == ("", 700, [])
        assert first.reader == "the export to /lake of address 127.0.0.1 over HTTP"
        lease.end()
        assert (kept(store), lease.note) == ([], "")
        lease = GatewayStore(url).lease("the export to /lake", 700, HOUR_MS)
        lease.end()
        assert kept(store) == []
        short = GatewayStore(url).lease("the export to /lake", 700, 2_500)
        (first,) = kept(store)
        deadline = time_ns() + LIMIT_NS
        while not short.note and time_ns() < deadline:
            if (found := kept(store)) and found[0].until_ms > first.until_ms:
                break
            time.sleep(0.01)
        else:
            assert short.note == "its lease has run out (--lease)"
        short.end()
        assert kept(store) == []

    served(store, work)


def test_who_may_not_lease_reads_without(
    store: SampleStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = Pattern.parse(">")
    grants: dict[Action, frozenset[str]] = {"read": frozenset({"*"}), "subscribe-durable": frozenset()}
    login_check = LoginCheck(ServerConfig(permissions=(Permission(everything, BOTH, grants),)))

    def work(url: str) -> None:
        asked = ["export", "--data", url, "--destination", ">", "--to", str(tmp_path / "lake"), "--master", "none"]
        assert execute([*asked, "--nice", "0", "--json"]) == exit_codes.OK
        told = json.loads(capsys.readouterr().out)
        assert told["rows"] == 300
        assert told["note"].startswith("the gateway's retention does not wait for it: ")
        assert "needs the permission read and subscribe-durable for all destinations" in told["note"]
        assert kept(store) == []

    served(store, work, login_check)


def test_an_export(store: SampleStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def work(url: str) -> None:
        asked = ["export", "--data", url, "--destination", ">", "--to", str(tmp_path / "lake"), "--master", "none"]
        assert execute([*asked, "--nice", "0", "--json"]) == exit_codes.OK
        told = json.loads(capsys.readouterr().out)
        assert (told["rows"], told["to_offset"], told["note"]) == (300, StoreReader(store.directory).end().offset, "")
        assert execute([*asked, "--nice", "0"]) == exit_codes.OK
        assert "nothing new" in capsys.readouterr().out
        with pytest.raises(TargetError, match="http:// is no place that can be used"):
            files_at(url)

    served(store, work)


def test_the_read_ends_at_the_published_offset(store: SampleStore) -> None:
    end = StoreReader(store.directory).end().offset
    store.publish(is_clean=False)
    store.send(store.destination("orders"), b"not published")

    def work(url: str) -> None:
        reader = StoreReader(store_at(url))
        store.publish(is_clean=False)
        assert (reader.end().offset, reader.end().is_published) == (end, True)
        assert reader.entries_offset == end
        assert StoreReader(reader.directory).end().offset == end  # of the moment of the list
        assert StoreReader(store_at(url)).end().offset > end

    served(store, work)


def test_logins(store: SampleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(url: str) -> None:
        host = url.removeprefix("http://")
        given = {"PENSTOCK_PASSWORD": "p:@ss"}
        for user, environment in (("ann%20lee:p%3A%40ss", {}), ("ann%20lee", given)):
            found = GatewayStore(f"http://{user}@{host}", environment)
            assert found.sizes() and found.title == url
            sent: GatewayStore = pickle.loads(pickle.dumps(found))
            assert sent.read_at("store.json", 7, 0) == (store.directory / "store.json").read_bytes()[:7]
        for user in ("", "ann%20lee@", "ann%20lee:wrong@", "bob:p%3A%40ss@"):
            with pytest.raises(LakeError, match=f"cannot list the files of {url}: it answers 401: wrong or no cred"):
                GatewayStore(f"http://{user}{host}", {})

    served(store, work, GUARDED)


def shortened(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def dropped(path: Path) -> None:
    path.unlink()


def rewritten(path: Path) -> None:
    octets = path.read_bytes()
    path.rename(path.with_suffix(".tmp"))
    path.write_bytes(octets)


@pytest.mark.parametrize(
    ("change", "expected"),
    [(dropped, "has dropped it"), (rewritten, "has removed messages from it")],
)
def test_what_retention_takes_while_it_is_read(
    store: SampleStore, change: Callable[[Path], None], expected: str
) -> None:
    def work(url: str) -> None:
        read = plan_read({"path": url, "verify": "true"})
        assert read.tasks() == 1
        segment = sorted((store.directory / "commitlog").iterdir())[1]
        change(segment)
        gone = f"log offsets from {int(segment.stem)} on are gone: since {url} listed .*{segment.name}, .*{expected}"
        with pytest.raises(RangeGone, match=gone):
            list(read.rows(0))

    served(store, work)


@pytest.mark.parametrize(
    ("change", "what"),
    [(rewritten, ""), (dropped, "its retention has dropped it"), (shortened, "entries of it were removed")],
)
def test_changed_queues(store: SampleStore, change: Callable[[Path], None], what: str) -> None:
    """A start after a kill writes a queue's file again, with equal entries."""

    def work(url: str) -> None:
        listed = GatewayStore(url)
        (queue,) = (store.directory / "consumequeue" / "1").glob("4/*.cq")
        path, octets = str(queue.relative_to(store.directory)), queue.read_bytes()
        change(queue)
        if not what:
            assert listed.read_at(path, len(octets), 0) == octets
            return
        with pytest.raises(ListOutdated, match=f"parts of the log are gone: since {url} listed {path}, {what}"):
            listed.read_at(path, len(octets), 0)

    served(store, work)


def test_the_room_that_a_start_cuts_off_reads_as_zeros(store: SampleStore) -> None:
    def work(url: str) -> None:
        listed = GatewayStore(url)
        path, size, _ = listed.segments()[-1]
        octets = (store.directory / path).read_bytes()
        os.truncate(store.directory / path, size - 100)
        assert octets[-100:] == bytes(100)
        for count in (50, 100, 150, size):
            assert listed.read_at(path, count, size - count) == octets[-count:]

    served(store, work)


class Changing(GrowingStore):
    """A gateway's store of which a segment changes so many times, each time after the files were listed."""

    def __init__(self, url: str, segment: Path, times: int) -> None:
        self.url = url
        self.segment = segment
        self.times = times

    def now(self) -> Path:
        listed = store_at(self.url)
        if self.times:
            self.times -= 1
            rewritten(self.segment)
        return listed

    def end(self) -> tuple[str, int]:
        raise AssertionError("no export asks for it")

    def begin(self, store_id: str, mark: Watermark) -> None:
        raise AssertionError("nobody follows")

    def advance(self, store_id: str, mark: Watermark) -> None:
        raise AssertionError("nobody follows")


@pytest.mark.parametrize("times", [1, 2, 3, 99])
def test_an_export_begins_anew_when_its_list_is_outdated(store: SampleStore, tmp_path: Path, times: int) -> None:
    def work(url: str) -> None:
        segment = min((store.directory / "commitlog").iterdir())
        request = Request(Changing(url, segment, times), ">", tmp_path / "lake", NO_SPARK)
        if times < 99:
            assert export(request).rows == 300
        else:
            with pytest.raises(ListOutdated, match=f"since {url} listed .*{segment.name}, its retention has removed"):
                export(request)
        assert kept(store) == []

    served(store, work)


@contextmanager
def answering(*answers: tuple[int, bytes, dict[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Serve these answers, the last one for ever; yield the URL and, as they come, the requests.  0: no answer."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, octets, headers = answers[min(len(asked), len(answers) - 1)]
            asked.append(self.path)
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(octets))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(octets)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


LIST = json.dumps(
    {"checkpoint": "AAAA", "range_bytes_max": 4, "files": [{"path": "commitlog/7.log", "size": 9, "tag": "a1"}]}
).encode()
PART = {"ETag": 'W/"a1"', "Content-Range": "bytes 0-3/9"}


def test_parts_are_put_together_and_lost_answers_asked_for_again() -> None:
    rest = {"ETag": 'W/"a1"', "Content-Range": "bytes 4-8/9"}
    answers = [(0, b"", {}), (200, LIST, {}), (503, b"", {}), (206, b"0123", PART), (0, b"", {}), (206, b"45678", rest)]
    with answering(*answers) as (url, asked):
        found = GatewayStore(url, {}, pause_s=0)
        assert found.sizes() == {"commitlog/7.log": 9, "checkpoint": 3}
        assert found.open("commitlog/7.log").read_at(9, 0) == b"012345678"
        assert found.open("checkpoint").read_at(2, 1) == b"\0\0"
        assert asked[2:] == ["/api/store/file?path=commitlog%2F7.log"] * 4


def test_a_queue_is_waited_for_until_it_has_its_entries_again() -> None:
    def listing(entries_offset: int, size: int, tag: str) -> tuple[int, bytes, dict[str, str]]:
        known = pack_checkpoint(Checkpoint(1, False, 900, 0, 1, entries_offset, 0, 1))
        files = [{"path": "consumequeue/1/4/0.cq", "size": size, "tag": tag}]
        return 200, json.dumps({"checkpoint": base64.b64encode(known).decode(), "files": files}).encode(), {}

    past_end = 416, b"", {"ETag": 'W/"b"', "Content-Range": "bytes */2"}
    answers = [listing(700, 4, "a"), past_end, listing(600, 2, "b"), listing(699, 4, "b"), listing(700, 4, "b")]
    part = 206, b"3", {"ETag": 'W/"b"', "Content-Range": "bytes 3-3/4"}
    with answering(*answers, part) as (url, asked):
        assert GatewayStore(url, {}, pause_s=0).read_at("consumequeue/1/4/0.cq", 1, 3) == b"3"
        assert len(asked) == len(answers) + 1


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([(403, b'{"detail": "no right"}', {})], "cannot list the files of {}: it answers 403: no right"),
        ([(404, b"{}", {})], "it answers 404: it is no gateway, or one of an older version"),
        ([(200, b"<html>", {})], "it is no gateway, or one of an older version"),
        ([(200, b"[]", {})], "it is no gateway, or one of an older version"),
        ([(302, b"", {"Location": "http://other.example"})], "it answers 302: "),
        ([(503, b"busy", {})], "it answers 503: busy"),
        ([(0, b"", {})], "cannot reach {}: "),
        ([(200, LIST, {}), (200, b"0123", {})], "cannot read commitlog/7.log of {}: it answers 200"),
        ([(200, LIST, {}), (206, b"", PART)], "cannot read commitlog/7.log of {}: it answers 206"),
        ([(200, LIST, {}), (206, b"0123", {**PART, "Content-Range": "bytes 1-4/9"})], "it answers 206"),
        ([(200, LIST, {}), (507, b'{"detail": "bad disk"}', {})], "it answers 507: bad disk"),
    ],
)
def test_answers_that_give_nothing(answers: list[tuple[int, bytes, dict[str, str]]], expected: str) -> None:
    with answering(*answers) as (url, _), pytest.raises(LakeError) as error:
        GatewayStore(url, {}, pause_s=0).open("commitlog/7.log").read_at(9, 0)
    assert expected.format(url) in str(error.value)


@pytest.mark.parametrize(
    "url", ["http://", "http:/x", "https://:8161", "http://host:port", "http://u:secret@host/api", "http://host?a=b"]
)
def test_what_is_no_url_of_a_gateway(url: str) -> None:
    with pytest.raises(TargetError, match=r"is no gateway; allowed is https?://USER@HOST:PORT") as error:
        store_at(url)
    assert "secret" not in str(error.value)
