"""A store that grows, followed by its gateway's URL: streams and exports again and again, and what they say of it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

from config.matching import BOTH, Pattern
from config.model import ServerConfig
from config.permissions import Permission
from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import Watermark, forget_reader, read_watermarks
from engine.store.read.reader import StoreReader
from engine.values.destination import QUEUE
from engine.values.errors import StoreError
from gateway.cli.dispatch import execute
from gateway.logins.login_check import LoginCheck
from gateway.process import exit_codes
from spark_bridge.errors import LakeError
from spark_bridge.export import NO_SPARK, Request
from spark_bridge.files.gateway_client import ATTEMPTS, PATIENT_ATTEMPTS, Answer, GatewayClient
from spark_bridge.files.gateway_store import GatewayStore
from spark_bridge.files.growing_store import GrowingStore, StoreOfGateway
from spark_bridge.follow import Followed, Rhythm, follow
from spark_bridge.read.scan import scan
from spark_bridge.result import Result
from spark_bridge.stream.micro_batches import LogStream, Place
from spark_bridge.target import target_at
from tests.support.store.sample_store import SampleStore
from tests.support.store.served_store import served

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

LIMIT_S: Final = 60.0
ONLY_READS: Final = LoginCheck(
    ServerConfig(permissions=(Permission(Pattern.parse(">"), BOTH, {"read": frozenset({"*"})}),))
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=8192) as sample:
        send(sample, 20)
        yield sample


def send(store: SampleStore, count: int) -> None:
    for _ in range(count):
        store.send(store.destination("orders"), b"x" * 300)
    store.publish()


def marks(store: SampleStore) -> list[Watermark]:
    return read_watermarks(RealFiles(), str(store.directory), store.store_id).marks


def places(store: SampleStore) -> list[tuple[str, int]]:
    return [(mark.title(), mark.to_offset) for mark in marks(store)]


def stream_of(path: str, **options: str) -> LogStream:
    return LogStream({"path": path, "destination": "orders", **options}, ["log_offset", "delivery_state"])


def next_batch(stream: LogStream, start: Place) -> tuple[Place, list[object]]:
    """Take the batch that begins at ``start``, once there is one."""
    deadline = monotonic() + LIMIT_S
    while (end := stream.batch_end(start, stream.last())) == start:
        assert monotonic() < deadline, "the log has no new end"
    return end, rows(stream, start, end)


def rows(stream: LogStream, start: Place, end: Place) -> list[object]:
    tasks = pickle.loads(pickle.dumps(stream.tasks(start, end)))  # to workers
    return [row for task in tasks for batch in task.rows() for row in batch.to_pylist()]


def test_a_stream_has_the_rows_of_the_directory(store: SampleStore) -> None:
    def work(url: str) -> None:
        stream: LogStream = pickle.loads(pickle.dumps(stream_of(url)))
        local = stream_of(str(store.directory))
        place = stream.first()
        assert place == local.first()
        found: list[object] = []
        for _ in range(3):
            end, batch = next_batch(stream, place)
            assert batch == rows(local, place, end)
            found += batch
            place = end
            send(store, 30)
        assert (
            found == scan(str(store.directory), ["log_offset", "delivery_state"]).read_all().to_pylist()[: len(found)]
        )
        assert len(found) == 80

    served(store, work)


def test_a_named_stream_says_how_far_it_is(store: SampleStore) -> None:
    def work(url: str) -> None:
        stream = stream_of(url, reader="billing")
        first = stream.first()
        stream.has_read(first)
        assert places(store) == [("stream 'billing'", 0)]
        assert [str(mark.chosen) for mark in marks(store)] == ["orders"]
        end, _ = next_batch(stream, first)
        stream.has_read(end)
        assert places(store) == [("stream 'billing'", end.log_offset)]
        forget_reader(store.directory, True, "billing")
        send(store, 1)
        later, _ = next_batch(stream, end)
        stream.has_read(later)
        assert places(store) == [("stream 'billing'", later.log_offset)], "it is still there"
        again = stream_of(url, reader="billing", destination="orders", table="deliveries")
        again.has_read(end)
        assert [(mark.to_offset, mark.has_messages) for mark in marks(store)] == [(end.log_offset, False)]

    served(store, work)


def test_two_streams_with_one_name(store: SampleStore) -> None:
    def work(url: str) -> None:
        fast, slow = stream_of(url, reader="billing"), stream_of(url, reader="billing")
        first = fast.first()
        slow.has_read(first)
        middle, _ = next_batch(slow, first)
        send(store, 1)
        end, _ = next_batch(stream_of(url), middle)
        fast.has_read(end)
        with pytest.raises(StoreError, match=r"stream 'billing' is at \d+ already, which another reader of that name"):
            slow.has_read(middle)

    served(store, work)


def test_what_a_gateway_does_not_note(store: SampleStore) -> None:
    def work(url: str) -> None:
        stream = stream_of(url, reader="billing")
        for place, told in (
            (Place("c0ffee00", 0, 0), "store is 'c0ffee00'; this gateway has '0badcafe'"),
            (Place(store.store_id, 1 << 40, 0), "the log can be read up to"),
        ):
            with pytest.raises(StoreError, match=f"retention cannot learn what stream 'billing' has read.*{told}"):
                stream.has_read(place)
        with pytest.raises(StoreError, match="it is an older copy"):
            stream.tasks(stream.first(), Place(store.store_id, 1 << 40, 0))
        with pytest.raises(StoreError, match=f"is of store c0ffee00, and {url} is store 0badcafe"):
            stream.tasks(Place("c0ffee00", 0, 0), stream.last())

    served(store, work)


def test_without_the_permission_a_named_stream_fails(store: SampleStore) -> None:
    def work(url: str) -> None:
        stream = stream_of(url, reader="billing")
        with pytest.raises(StoreError, match="403: POST /api/store/readers needs the permission read and export"):
            stream.has_read(stream.first())
        assert len(next_batch(stream_of(url), stream.first())[1]) == 20
        assert marks(store) == []

    served(store, work, ONLY_READS)


@dataclass
class Rounds:
    """steps: what happens between rounds; then it is enough."""

    steps: list[Callable[[], object]]
    told: list[tuple[int, str]] = field(default_factory=list)

    def rest(self, seconds: float) -> bool:
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False

    def exported(self, result: Result) -> None:
        self.told.append((result.rows, result.note))

    def failed(self, error: Exception, failures: int, pause_s: float) -> None:
        raise AssertionError(f"no round fails: {error}")

    def back(self, failures: int) -> None:
        raise AssertionError("no round has failed")

    def ended(self, error: Exception) -> None:
        raise AssertionError(f"no round fails: {error}")


def followed(
    store: str | GrowingStore, place: Path, rhythm: Rhythm, *steps: Callable[[], object]
) -> list[tuple[int, str]]:
    rounds = Rounds(list(steps))
    follow([Followed(target_at(place), Request(store, "orders", place, NO_SPARK), rounds)], rhythm, rounds.rest)
    return rounds.told


def test_an_export_follows_a_gateway(store: SampleStore, tmp_path: Path) -> None:
    def reached() -> None:
        (mark,) = marks(store)
        assert mark.title().endswith(f":{tmp_path / 'lake'}'")
        found = read_watermarks(RealFiles(), str(store.directory), store.store_id)
        assert found.reached(7, QUEUE, "orders").offset == store.offset
        assert found.reached(7, QUEUE, "prices").offset == 0

    def work(url: str) -> None:
        told = followed(url, tmp_path / "lake", Rhythm(60), reached, lambda: send(store, 5), reached)
        assert told == [(20, ""), (0, ""), (5, ""), (0, "")]
        told = followed(url, tmp_path / "lake", Rhythm(2, 1_000), lambda: send(store, 9), int, int, int)
        assert [each for each in told if each[0]] == [(9, "")]
        union = scan(url, ["log_offset"], destination="orders", lake=str(tmp_path / "lake")).read_all()
        assert union.sort_by("log_offset") == scan(str(store.directory), ["log_offset"]).read_all()

    served(store, work)


def test_an_export_without_the_permission_has_a_note(
    store: SampleStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(url: str) -> None:
        asked = ["export", "--data", url, "--destination", ">", "--to", str(tmp_path / "lake"), "--master", "none"]
        assert execute([*asked, "--nice", "0", "--json"]) == exit_codes.OK
        told = json.loads(capsys.readouterr().out)
        assert told["rows"] == 20
        assert "retention does not learn of this export" in told["note"]
        assert "needs the permission read and export for all destinations" in told["note"]
        assert marks(store) == []

    served(store, work, ONLY_READS)


def test_a_stream_is_forgotten_over_http(
    store: SampleStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(url: str) -> None:
        stream = stream_of(url, reader="billing & co")
        stream.has_read(stream.last())
        for status in (exit_codes.OK, exit_codes.FAILED):
            assert execute(["store", "readers", "--forget", "billing & co", "--http", url]) == status
            assert marks(store) == []
        assert "no stream is named 'billing & co'; the store knows none" in capsys.readouterr().err

    served(store, work)


class Watched(GatewayClient):
    """Takes note of what is asked.  missing: the next so many attempts reach nobody."""

    def __init__(self, url: str, missing: int = 0) -> None:
        super().__init__(url, {}, pause_s=0)
        self.missing = missing
        self.paths: list[str] = []

    def _asked(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        if self.missing:
            self.missing -= 1
            raise ConnectionRefusedError(111, "Connection refused")
        self.paths.append(path)
        return super()._asked(method, path, headers, body)


def test_a_gateway_that_has_answered_is_waited_for(store: SampleStore) -> None:
    def work(url: str) -> None:
        assert GatewayStore(Watched(url, ATTEMPTS - 1)).sizes()
        refused = rf"cannot reach {url}: .*Connection refused \(attempt %s\)"
        with pytest.raises(LakeError, match=refused % ATTEMPTS):
            GatewayStore(Watched(url, ATTEMPTS))
        client = Watched(url)
        growing = StoreOfGateway(client, look_interval_s=0)
        assert growing.end() == (store.store_id, store.offset)
        client.missing = PATIENT_ATTEMPTS - 1
        assert growing.end() == (store.store_id, store.offset)
        client.missing = PATIENT_ATTEMPTS
        with pytest.raises(LakeError, match=refused % PATIENT_ATTEMPTS):
            growing.end()
        client.missing = ATTEMPTS
        with pytest.raises(LakeError, match=refused % ATTEMPTS):
            client.delete("/api/store/leases/x")

    served(store, work)


def test_heads_of_segments_are_read_once(store: SampleStore) -> None:
    def heads(client: Watched, growing: StoreOfGateway) -> list[str]:
        client.paths.clear()
        assert [each.base for each in StoreReader(growing.now()).segments] == bases()
        return [path.rpartition("F")[2] for path in client.paths if "commitlog" in path]

    def bases() -> list[int]:
        return [each.base for each in StoreReader(store.directory).segments]

    def work(url: str) -> None:
        client = Watched(url)
        growing = StoreOfGateway(client)
        first = heads(client, growing)
        assert len(first) == len(bases()) >= 2
        assert heads(client, growing) == first[-1:], "the last one is being written"
        send(store, 40)
        assert heads(client, growing) == [f"{base:020}.log" for base in bases()][len(first) - 1 :]
        oldest = sorted((store.directory / "commitlog").iterdir())[0]
        oldest.with_suffix(".tmp").write_bytes(oldest.read_bytes())
        oldest.with_suffix(".tmp").rename(oldest)
        assert heads(client, growing) == [oldest.name, f"{bases()[-1]:020}.log"]

    served(store, work)


def test_a_round_reads_no_head_that_an_earlier_one_has_read(store: SampleStore, tmp_path: Path) -> None:
    asked: list[int] = []

    def work(url: str) -> None:
        client = Watched(url)

        def round_ends() -> None:
            asked.append(sum("commitlog" in path for path in client.paths))
            client.paths.clear()

        for place, rhythm in ((tmp_path / "lake", Rhythm(60)), (tmp_path / "often", Rhythm(2, 1 << 30))):
            followed(StoreOfGateway(client), place, rhythm, *[round_ends] * 4)
            first, *later = asked
            assert max(later) <= 5 < len(StoreReader(store.directory).segments) < first
            asked.clear()

    queue = store.destination("orders")
    for _ in range(200):
        store.send(queue, b"x" * 300)
    store.publish()
    served(store, work)
