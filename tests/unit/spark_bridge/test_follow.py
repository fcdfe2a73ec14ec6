"""Exports again and again: what ends them, what they survive, and what a round costs after many."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from engine.store.disk.files import RealFiles
from engine.store.format import layout
from engine.store.read.export_watermarks import read_watermarks
from engine.values.destination import QUEUE
from engine.values.errors import RangeGone, StoreCorrupt
from spark_bridge.errors import TargetError
from spark_bridge.export import NO_SPARK, Request, export
from spark_bridge.follow import BACK_OFF_MAX_S, Followed, Rhythm, back_off_s, follow
from spark_bridge.read.scan import scan
from spark_bridge.result import Result
from spark_bridge.target import Target, target_at
from tests.support.objects.s3_server import CUT, PASS, Relay, S3Server
from tests.support.store.counting_files import CountingFiles
from tests.support.store.sample_store import SampleStore
from tests.support.uncollected import uncollected

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

Step = Callable[[], object]
EACH_MINUTE = Rhythm(60)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data") as sample:
        send(sample, 5)
        yield sample


def send(store: SampleStore, count: int = 1) -> None:
    number = store.destination("orders")
    for _ in range(count):
        store.send(number, b"x" * 100)
    store.publish()


@dataclass
class Steps:
    """What happens in the times between rounds, one by one; then it is enough."""

    steps: list[Step]
    waited: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> bool:
        self.waited.append(seconds)
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False


@dataclass
class Told:
    rows: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    came_back: list[int] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    def exported(self, result: Result) -> None:
        self.rows.append(result.rows)

    def failed(self, error: Exception, failures: int, pause_s: float) -> None:
        self.failures.append(str(error))
        self.pauses.append(pause_s)

    def back(self, failures: int) -> None:
        self.came_back.append(failures)

    def ended(self, error: Exception) -> None:
        self.ends.append(str(error))


def followed(store: SampleStore, place: str | Path, *steps: Step, rhythm: Rhythm = EACH_MINUTE) -> tuple[Told, Steps]:
    told, rest = Told(), Steps(list(steps))
    follow([Followed(target_at(place), request(store, place), told)], rhythm, rest)
    return told, rest


def request(store: SampleStore, place: str | Path) -> Request:
    return Request(store.directory, "orders", place, NO_SPARK)


def in_lake(store: SampleStore, place: str | Path) -> list[int]:
    table = target_at(place).lake_files(("messages",), "messages")
    assert table
    offsets: list[int] = (
        scan(str(store.directory), ["log_offset"], lake=str(place)).read_all()["log_offset"].to_pylist()
    )
    return sorted(offsets)


def in_log(store: SampleStore) -> list[int]:
    return sorted(scan(str(store.directory), ["log_offset"]).read_all()["log_offset"].to_pylist())


def test_each_round_adds_what_is_new_and_tells_retention(store: SampleStore, tmp_path: Path) -> None:
    def reached() -> None:
        marks = read_watermarks(RealFiles(), str(store.directory), store.store_id)
        assert marks.reached(1, QUEUE, "orders").offset == store.offset

    told, rest = followed(store, tmp_path / "out", reached, lambda: send(store, 3), reached, lambda: None)
    assert told.rows == [5, 0, 3, 0, 0]
    assert rest.waited == [60] * 5
    assert in_lake(store, tmp_path / "out") == in_log(store)
    assert not list((store.directory / "readers").iterdir())


def test_a_round_begins_as_soon_as_enough_is_new(store: SampleStore, tmp_path: Path) -> None:
    rhythm = Rhythm(3, 500)
    one = partial(send, store)
    told, _ = followed(store, tmp_path / "out", one, partial(send, store, 9), int, one, rhythm=rhythm)
    assert told.rows == [5, 10]
    told, _ = followed(store, tmp_path / "out", int, int, int, rhythm=rhythm)  # and after the interval anyway
    assert told.rows == [1, 0]


def test_a_target_that_is_away_for_a_while(store: SampleStore, tmp_path: Path) -> None:
    away = tmp_path / "away"

    def unmount() -> None:
        (tmp_path / "out").rename(away)
        (tmp_path / "out").mkdir()
        send(store)

    def mount() -> None:
        assert list((tmp_path / "out").iterdir()) == []
        (tmp_path / "out").rmdir()
        away.rename(tmp_path / "out")

    told, rest = followed(store, tmp_path / "out", unmount, lambda: None, lambda: None, mount)
    assert told.rows == [5, 1]
    assert told.came_back == [3] and told.pauses == [1, 2, 4]
    assert rest.waited == [60, 1, 2, 4, 60]
    assert "lacks what was exported before" in told.failures[0]
    assert in_lake(store, tmp_path / "out") == in_log(store)
    assert max(map(back_off_s, range(1, 100))) == BACK_OFF_MAX_S


def of_two(store: SampleStore, tmp_path: Path, *steps: Step, rhythm: Rhythm = EACH_MINUTE) -> tuple[Told, Told, Steps]:
    one, two, rest = Told(), Told(), Steps(list(steps))
    places = {tmp_path / "one": one, tmp_path / "two": two}
    follow([Followed(target_at(at), request(store, at), told) for at, told in places.items()], rhythm, rest)
    return one, two, rest


def test_a_target_that_is_away_does_not_stop_the_others(store: SampleStore, tmp_path: Path) -> None:
    def unmount() -> None:
        (tmp_path / "one").rename(tmp_path / "away")
        (tmp_path / "one").mkdir()
        send(store)

    def mount() -> None:
        (tmp_path / "one").rmdir()
        (tmp_path / "away").rename(tmp_path / "one")

    one, two, rest = of_two(store, tmp_path, unmount, *[int] * 5, partial(send, store), mount, int)
    assert (one.pauses, one.came_back, one.ends) == ([1, 2, 4, 8, 16, 32], [6], [])
    assert rest.waited[:9] == [60, 1, 2, 4, 8, 16, 29, 3, 57]
    assert one.rows == [5, 2] and two.rows == [5, 1, 1, 0]
    assert in_lake(store, tmp_path / "one") == in_lake(store, tmp_path / "two") == in_log(store)


def test_each_target_looks_for_what_is_new_to_it(store: SampleStore, tmp_path: Path) -> None:
    one, two, rest = of_two(store, tmp_path, partial(send, store, 9), int, rhythm=Rhythm(3, 500))
    assert one.rows == two.rows == [5, 9]
    assert rest.waited == [1, 1, 1]


def test_a_target_that_is_away_in_the_first_round(store: SampleStore, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("no directory")
    one, two, _ = of_two(store, tmp_path, (tmp_path / "one").unlink, int)
    assert (one.rows, one.pauses, two.rows) == ([5], [1], [5, 0])
    for place in ("one", "two"):
        shutil.rmtree(tmp_path / place)
        (tmp_path / place).write_text("no directory")
    with pytest.raises(OSError):
        of_two(store, tmp_path)


def test_an_error_ends_the_exports_to_its_target_only(store: SampleStore, tmp_path: Path) -> None:
    export(replace(request(store, tmp_path / "one"), destination="other,orders"))
    one, two = Told(), Told()
    targets = [
        Followed(target_at(tmp_path / name), request(store, tmp_path / name), told)
        for name, told in {"one": one, "two": two}.items()
    ]
    with pytest.raises(TargetError, match="holds an export of destination 'other,orders', not 'orders'"):
        follow(targets, EACH_MINUTE, Steps([partial(send, store), int]))
    assert (len(one.ends), one.rows, two.rows, two.ends) == (1, [], [5, 1, 0], [])


def test_another_export_at_work_is_waited_for(store: SampleStore, tmp_path: Path) -> None:
    holder = target_at(tmp_path / "out").hold()
    told, _ = followed(store, tmp_path / "out", holder.__enter__, lambda: holder.__exit__(None, None, None))
    assert (told.rows, len(told.failures)) == ([5, 0], 1)
    assert "another export is writing" in told.failures[0]


def test_another_export_between_two_rounds(store: SampleStore, tmp_path: Path) -> None:
    def another() -> None:
        for _ in range(3):
            send(store)
            assert export(request(store, tmp_path / "out")).rows == 1

    told, _ = followed(store, tmp_path / "out", another, lambda: send(store))
    assert told.rows == [5, 0, 1]
    assert in_lake(store, tmp_path / "out") == in_log(store)


def test_the_first_round_fails_as_an_export_does(store: SampleStore, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("no directory")
    with pytest.raises(OSError):
        followed(store, tmp_path / "out")


def test_what_is_gone_and_another_choice_end_it(store: SampleStore, tmp_path: Path) -> None:
    def drop() -> None:
        send(store, 1000)
        store.drop_first_segment()
        store.publish()

    with pytest.raises(RangeGone, match="--skip-gone"):
        followed(store, tmp_path / "out", drop)
    other = replace(request(store, tmp_path / "out"), destination="other")
    with pytest.raises(TargetError, match="holds an export of destination"):
        follow([Followed(target_at(tmp_path / "out"), other, Told())], EACH_MINUTE, Steps([]))


def test_what_is_damaged_ends_it(store: SampleStore, tmp_path: Path) -> None:
    def damage() -> None:
        send(store, 10)
        store.append_octets()
        store.publish(is_clean=True)
        broken = bytearray(store.path.read_bytes())
        broken[layout.SEGMENT_HEADER_BYTES + store.offset - store.base - 20] ^= 1
        store.path.write_bytes(broken)

    with pytest.raises(StoreCorrupt):
        followed(store, tmp_path / "out", damage)


def test_memory_stays_even(store: SampleStore, tmp_path: Path) -> None:
    counts: list[int] = []

    def step() -> None:
        send(store)
        gc.collect()
        counts.append(len(gc.get_objects()))

    with uncollected():
        told, _ = followed(store, tmp_path / "out", *[step] * 40)
    assert told.rows[1:] == [1] * 40
    assert counts[-1] - counts[10] < 30 * 3  # the lists of this test grow


def many(place: Path, count: int) -> None:
    """Give the target of one export ``count`` more commits, as if nothing had been sent."""
    first = json.loads((place / "_penstock/manifest-00000001.json").read_text())
    told = json.loads((place / "_delta_log/00000000000000000000.json").read_text().splitlines()[-1])
    info = (place / "_delta_log/00000000000000000000.json").read_text().splitlines()[0]
    del told
    for number in range(2, count + 2):
        manifest = first | {
            "number": number,
            "from_offset": first["to_offset"],
            "files": [],
            "staging": f"{number:08}-0",
        }
        (place / f"_penstock/manifest-{number:08}.json").write_text(json.dumps(manifest))
        txn = {"txn": {"appId": first["store_id"], "version": first["to_offset"]}}
        (place / f"_delta_log/{number - 1:020}.json").write_text(f"{info}\n{json.dumps(txn)}\n")


@pytest.mark.parametrize("count", [0, 300])
def test_a_round_reads_as_much_after_many_commits(store: SampleStore, tmp_path: Path, count: int) -> None:
    export(request(store, tmp_path / "out"))
    many(tmp_path / "out", count)
    files = CountingFiles(tmp_path / "out")
    seen: list[tuple[int, int]] = []

    def step() -> None:
        seen.append((files.opened, files.named))
        files.opened = files.named = 0
        send(store)

    follow([Followed(Target(files), request(store, tmp_path / "out"), Told())], EACH_MINUTE, Steps([step] * 5))
    assert set(seen[2:]) == {(6, 0)}


def test_a_bucket_that_is_away_and_many_commits(store: SampleStore, tmp_path: Path, s3_server: S3Server) -> None:
    pytest.importorskip("obstore")
    lake = s3_server.lake()
    is_away = False
    asked: list[str] = []

    def fault(method: str, path: str, number: int) -> str:
        asked.append(f"{method} {path}")
        return CUT if is_away else PASS

    relay = Relay(lake.port, fault)
    counts: list[int] = []

    def count() -> None:
        counts.append(len(asked))
        asked.clear()
        send(store)

    place = lake.at(relay.port)
    try:
        told, _ = followed(store, place, *[count] * 5)
        assert told.rows == [5, 1, 1, 1, 1, 1]
        assert len(set(counts[2:])) == 1
        assert not any("probe" in one for one in asked)
    finally:
        relay.close()
    assert in_lake(store, lake.url) == in_log(store)
