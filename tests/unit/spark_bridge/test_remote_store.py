"""A store's copy in an object store: it is read by ranges, with the rows of the directory, and nothing is written."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from engine.store.format import layout
from engine.store.read import selection
from engine.store.read.backup import back_up
from engine.store.read.reader import StoreReader
from engine.store.read.store_files import RemotePath
from engine.values.destination import TOPIC
from engine.values.errors import StoreCorrupt, StoreError
from gateway.cli.dispatch import execute
from gateway.process import exit_codes
from spark_bridge.arrow.schema import MESSAGES, TABLES
from spark_bridge.errors import LakeError
from spark_bridge.files.choice import files_at, store_at
from spark_bridge.files.store_ranges import RangedFiles
from spark_bridge.log.times import offset_at
from spark_bridge.read.filters import row_filter
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from spark_bridge.read.scan import scan
from spark_bridge.read.where import parse
from spark_bridge.stream.micro_batches import LogStream
from tests.support.objects.s3_server import PASS, REFUSE, Relay, S3Lake, S3Server
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=1 << 16) as sample:
        yield sample


@pytest.fixture
def place(s3_server: S3Server) -> S3Lake:
    return s3_server.lake()


def fill(store: SampleStore, is_clean: bool = True) -> None:
    orders, prices = store.destination("orders"), store.destination("prices", TOPIC)
    for number in range(300):
        store.now_ms = DAY_ONE_MS + number * 1000
        store.send((orders, prices)[number % 2], b"x" * 500, priority=4 + number % 3)
    store.settle(orders, (0, 40))
    store.publish(is_clean=is_clean)


def copied(directory: Path, place: S3Lake) -> str:
    """Copy the files as any tool does."""
    files = files_at(place.url)
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            files.write(str(path.relative_to(directory)), path.read_bytes())
    return place.url


@pytest.mark.parametrize("is_clean", [True, False], ids=["from consume queues", "tail scanned"])
def test_the_rows_are_those_of_the_directory(store: SampleStore, place: S3Lake, is_clean: bool) -> None:
    fill(store, is_clean)
    url = copied(store.directory, place)
    for table in TABLES:
        assert scan(url, table=table).read_all() == scan(str(store.directory), table=table).read_all()
    where = f"destination = 'queue://orders' AND store_time >= {DAY_ONE_MS + 250_000}"
    some = scan(url, ["log_offset", "delivery_state"], where=where, to_time=DAY_ONE_MS + 290_000).read_all()
    assert len(some) == 20


def test_an_export_of_a_backup(
    store: SampleStore, place: S3Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store)
    back_up(store.directory, tmp_path / "backup")
    before = sorted(files_at(copied(tmp_path / "backup", place)).walk(""))
    asked = ["export", "--data", place.url, "--destination", ">", "--to", str(tmp_path / "lake"), "--master", "none"]
    assert execute([*asked, "--nice", "0", "--json"]) == exit_codes.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["to_offset"], told["note"]) == (300, StoreReader(store.directory).end().offset, "")
    assert sorted(files_at(place.url).walk("")) == before
    union = scan(place.url, ["log_offset"], lake=tmp_path / "lake").read_all()
    assert union == scan(str(store.directory), ["log_offset"], lake=tmp_path / "lake").read_all()
    assert execute([*asked, "--follow"]) == exit_codes.USAGE
    assert "--data is the URL of a copy, allowed is a store's directory or http" in capsys.readouterr().err


def test_what_is_no_store(store: SampleStore, place: S3Lake) -> None:
    with pytest.raises(StoreError, match=r"^s3://lake/lake-\d+ is not a store: it has no store.json$"):
        scan(place.url)
    fill(store)
    copied(store.directory, place)
    with pytest.raises(
        ValueError, match="option 'path': nobody adds to a copy in s3://; allowed is the directory of a store, or http"
    ):
        LogStream({"path": place.url}, ["log_offset"])
    segment = sorted((store.directory / "commitlog").iterdir())[1].name
    files_at(place.url).delete([f"commitlog/{segment}"])
    with pytest.raises(StoreCorrupt, match="the file of that segment is missing"):
        scan(place.url)


def test_a_right_that_is_lost_while_it_is_read(store: SampleStore, place: S3Lake) -> None:
    fill(store)
    copied(store.directory, place)
    relay = Relay(place.port, lambda method, path, number: REFUSE if "commitlog" in path and number > 25 else PASS)
    with pytest.raises(LakeError, match="cannot read commitlog/.* access is denied"):
        scan(place.at(relay.port), ["body"]).read_all()
    relay.close()


class Counted:
    """A directory as an object store.  octets: how many were read; requests: in how many reads."""

    title = "s3://counted"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.octets = self.requests = 0

    def sizes(self) -> dict[str, int]:
        found = (path for path in self.directory.rglob("*") if path.is_file())
        return {str(path.relative_to(self.directory)): path.stat().st_size for path in found}

    def told(self, what: str) -> nullcontext[None]:
        return nullcontext()

    def open(self, path: str) -> CountedFile:
        return CountedFile(self, pa.OSFile(str(self.directory / path)))


class CountedFile:
    def __init__(self, counted: Counted, file: pa.NativeFile) -> None:
        self._counted = counted
        self._file = file

    def read_at(self, size: int, position: int) -> bytes:
        self._counted.requests += 1
        self._counted.octets += size
        octets: bytes = self._file.read_at(size, position)
        return octets


def test_few_large_ranges_are_read(tmp_path: Path) -> None:
    with SampleStore(tmp_path / "data", segment_bytes=1 << 22) as store:
        number = store.destination("orders")
        for second in range(12_000):
            store.now_ms = DAY_ONE_MS + second * 1000
            store.send(number, b"x" * 1000)
        store.publish(is_clean=True)
        counted = Counted(store.directory)
        path = RemotePath.of(RangedFiles(counted))
        where = f"store_time >= {DAY_ONE_MS + 6_000_000} AND store_time < {DAY_ONE_MS + 7_000_000}"
        conditions = parse(where, MESSAGES)
        whole = make_plan(StoreReader(path), selection.parse(">"), settles=False)
        plan = whole.of_table(MESSAGES, ["body"]).narrowed(row_filter(conditions, MESSAGES), conditions)
        assert sum(len(batch) for pieces in plan.partitions for batch in read_pieces(plan, pieces)) == 1000
        assert counted.octets < 3 * 1000 * layout.padded(layout.MESSAGE_HEAD_BYTES + 1000)
        assert counted.requests < 40


def test_a_path_of_another_place(store: SampleStore) -> None:
    fill(store)
    path = RemotePath.of(RangedFiles(Counted(store.directory)))
    assert str(path / "commitlog" / "x.log") == "s3://counted/commitlog/x.log"
    assert ((path / "commitlog" / "x.log").name, (path / "a" / "b").parent.place) == ("x.log", "a")
    assert pickle.loads(pickle.dumps(path / "a" / "b")).place == "a/b"
    with pytest.raises(TypeError, match="s3://counted/a is no path of this machine"):
        (path / "a").read_bytes()
    assert store_at(path) is path
    remote, local = StoreReader(path), StoreReader(store.directory)
    assert offset_at(remote, DAY_ONE_MS + 100_000) == local.offset_at(DAY_ONE_MS + 100_000)
