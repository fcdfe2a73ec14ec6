"""Retention by destination: its own time and size, and not before an export has the messages."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from config.policies import RetentionPolicy
from engine.ports.store import Store
from engine.store.disk.files import RealFiles, write_fully
from engine.store.file_store import FileStore
from engine.store.plain_words import duration
from engine.store.read.export_watermarks import Watermark, Watermarks, forget_reader, read_watermarks, write_watermark
from engine.store.read.selection import parse
from engine.store.settings import StoreSettings
from engine.store.space.backlog_sizes import BacklogSizes
from engine.store.space.disk_usage import BEHIND, space_of
from engine.store.space.retention_reasons import Keeping
from engine.store.space.retention_rules import RetentionPolicies
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreError
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.disk.modes import modes, umask
from tests.support.fakes import START_WALL_MS
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome, message

INTERVAL_MS = 1_000
HOUR_MS = 3_600_000


class Policies(RetentionPolicies):
    """By the name of a destination."""

    def __init__(self, **policies: RetentionPolicy) -> None:
        self.policies = policies

    def policy_for(self, kind: int, name: str) -> RetentionPolicy:
        return self.policies.get(name, RetentionPolicy())

    def all_policies(self) -> list[RetentionPolicy]:
        return list(self.policies.values())


class PolicyHome(FileHome):
    def __init__(self, policies: Policies, time_ms: int = HOUR_MS, percent: int = 0) -> None:
        self.policies = policies
        super().__init__(
            replace(THINNING, retention_time_ms=time_ms, retention_bytes=1 << 50, compaction_live_percent=percent)
        )

    def open(self) -> Store:
        self.file_store = FileStore(
            "data", self.files, self.workers, self.clock, self.timers, self.settings, policies=self.policies
        )
        return self.file_store


def consumed(home: FileHome, name: str, count: int = 300) -> int:
    """Send messages and settle them; return the queue's number."""
    number = home.store.open_destination(QUEUE, name)
    (lane_tail,) = [lane.tail for lane in home.store.state_of(number).lanes] or [0]
    size = 0
    for _ in range(count // 10):
        size += sum(message.size for message in home.send(number, 10))
        home.flush()
    home.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, lane_tail, count, 0, size)])
    home.flush()
    return number


def pass_by(home: FileHome, milliseconds: int = 4 * INTERVAL_MS) -> None:
    for _ in range(milliseconds // 100):
        home.pass_time(100)


def first_base(home: FileHome) -> int:
    return int(home.files.paths(".log")[0][-24:-4])


def wait(home: FileHome, milliseconds: int) -> None:
    home.pass_time(milliseconds)
    home.store.set_time(home.clock.wall_ms())
    pass_by(home)


def sent_again(home: FileHome) -> None:
    """Have the last segments be of something young, so that the old ones are not in use."""
    home.store.set_time(home.clock.wall_ms())
    consumed(home, "young", 100)


def exported_to(target: str, pattern: str, to_offset: int, *numbers: int) -> Watermark:
    return Watermark(target, parse(pattern), to_offset, 1, numbers=frozenset(numbers))


def export(home: FileHome, to_offset: int, *numbers: int, name: str = "a", **more: str) -> None:
    described = {"format": 1, "store_id": home.store.store_id(), "destinations": list(numbers), "to_offset": to_offset}
    described |= more
    home.files.make_directory("data/exports")
    file = home.files.create(f"data/exports/{name}.json")
    write_fully(file, json.dumps(described).encode(), 0)
    file.close()


def test_a_shorter_time_of_all_that_is_there_lets_it_go_earlier() -> None:
    home = PolicyHome(Policies(orders=RetentionPolicy(time_ms=HOUR_MS // 2)))
    consumed(home, "orders")
    sent_again(home)
    wait(home, HOUR_MS // 2 - 10_000)
    assert first_base(home) == 0
    wait(home, 10_000)
    assert first_base(home) > 0


def test_a_segment_stays_until_each_destination_in_it_is_past_its_time() -> None:
    home = PolicyHome(Policies(bills=RetentionPolicy(time_ms=2 * HOUR_MS)))
    consumed(home, "bills", 10)
    consumed(home, "orders")
    sent_again(home)
    wait(home, HOUR_MS)
    assert first_base(home) == 0
    wait(home, HOUR_MS)
    assert first_base(home) > 0


def test_compaction_takes_out_what_is_past_its_own_time() -> None:
    home = PolicyHome(Policies(bills=RetentionPolicy(time_ms=2 * HOUR_MS)), percent=60)
    bills = consumed(home, "bills", 10)
    orders = consumed(home, "orders")
    sent_again(home)
    wait(home, HOUR_MS)
    assert [each.queue_offset for each in home.page(bills, 4, 0, 10).messages] == list(range(10))
    assert home.page(orders, 4, 0, 10).messages == []
    home.stop()
    assert verify(home.files, "data").findings == []


def test_a_size_of_its_own_counts_its_own_messages_only() -> None:
    home = PolicyHome(Policies(orders=RetentionPolicy(bytes=20_000)))
    consumed(home, "orders", 20)
    consumed(home, "bills")
    sent_again(home)
    wait(home, 10_000)
    assert first_base(home) == 0, "so much has come of others, and their time is not past"
    home = PolicyHome(Policies(orders=RetentionPolicy(bytes=20_000)))
    consumed(home, "orders", 300)
    sent_again(home)
    wait(home, 10_000)
    kept = home.store.append_offset() - first_base(home)
    assert 20_000 < kept < 20_000 + 4 * 8192


def test_messages_stay_until_an_export_has_them() -> None:
    home = PolicyHome(Policies(orders=RetentionPolicy(until_exported=True, export_deadline_ms=9 * HOUR_MS)))
    orders = consumed(home, "orders")
    bills = consumed(home, "bills", 10)
    sent_again(home)
    wait(home, HOUR_MS)
    assert first_base(home) == 0
    reason = home.store.retention_hold()
    assert reason.startswith("space waits for an export: queue://orders is exported up to log offset 0 of 8192, its")
    assert reason.endswith("are dropped anyway in 7 hours")
    export(home, 1 << 40, bills)
    export(home, 20_000, orders, name="b")
    wait(home, 10_000)
    assert 0 < first_base(home) <= 20_000
    export(home, home.store.durable_offset(), orders, bills, name="c")
    wait(home, 10_000)
    assert first_base(home) > 20_000
    assert home.store.retention_hold() == ""


def test_messages_stay_until_every_stream_has_them() -> None:
    home = PolicyHome(Policies(orders=RetentionPolicy(until_exported=True, export_deadline_ms=9 * HOUR_MS)))
    orders = consumed(home, "orders")
    sent_again(home)
    export(home, 1 << 40, orders)
    export(home, 8_192, name="b", kind="stream", target="billing", destination="queue://>")
    wait(home, HOUR_MS)
    assert first_base(home) == 8_192
    assert "queue://orders is read by stream 'billing' up to log offset 8192 of 1" in home.store.retention_hold()
    export(home, 1 << 40, name="b", kind="stream", target="billing", destination="queue://>")
    wait(home, 10_000)
    assert first_base(home) > 8_192
    assert home.store.retention_hold() == ""


def test_messages_stay_for_a_stream_that_begins_while_their_time_passes() -> None:
    home = PolicyHome(Policies(orders=RetentionPolicy(until_exported=True, export_deadline_ms=9 * HOUR_MS)))
    orders = consumed(home, "orders")
    sent_again(home)
    export(home, 1 << 40, orders)
    wait(home, HOUR_MS // 2)
    export(home, 0, name="b", kind="stream", target="billing", destination="queue://>")
    wait(home, HOUR_MS // 2)
    assert first_base(home) == 0
    assert "queue://orders is read by stream 'billing' up to log offset 0 of 8192" in home.store.retention_hold()


def test_a_stream_that_begins_counts_for_messages_that_were_found_free() -> None:
    waiting = RetentionPolicy(until_exported=True, export_deadline_ms=9 * HOUR_MS)
    home = PolicyHome(Policies(orders=waiting, bills=RetentionPolicy(time_ms=2 * HOUR_MS)))
    orders = consumed(home, "orders", 10)
    consumed(home, "bills")
    sent_again(home)
    export(home, 1 << 40, orders)
    wait(home, HOUR_MS)
    export(home, 0, name="b", kind="stream", target="billing", destination="queue://orders")
    wait(home, HOUR_MS)
    assert first_base(home) == 0
    export(home, 1 << 40, name="b", kind="stream", target="billing", destination="queue://orders")
    wait(home, 10_000)
    assert first_base(home) > 0


def test_compaction_leaves_messages_for_a_stream_that_begins_while_their_time_passes() -> None:
    policies = Policies(orders=RetentionPolicy(until_exported=True, export_deadline_ms=9 * HOUR_MS))
    home = PolicyHome(policies, percent=60)
    home.store.append(message(home.store.open_destination(QUEUE, "forgotten")))
    orders = consumed(home, "orders")
    sent_again(home)
    export(home, 1 << 40, orders)
    wait(home, HOUR_MS // 2)
    export(home, 0, name="b", kind="stream", target="billing", destination="queue://>")
    wait(home, HOUR_MS // 2)
    home.pass_by(4_000)
    assert len(home.page(orders, 4, 0, 10).messages) == 10


def test_it_does_not_wait_for_an_export_for_ever() -> None:
    home = PolicyHome(Policies(orders=RetentionPolicy(until_exported=True, export_deadline_ms=2 * HOUR_MS)))
    consumed(home, "orders")
    sent_again(home)
    wait(home, HOUR_MS)
    assert first_base(home) == 0
    wait(home, HOUR_MS)
    assert first_base(home) > 0
    assert "messages were dropped at their deadline without an export" in home.store.retention_hold()


def test_what_is_taken_out_of_a_pinned_segment_without_an_export_is_told_once() -> None:
    policies = Policies(orders=RetentionPolicy(until_exported=True, export_deadline_ms=2 * HOUR_MS))
    home = PolicyHome(policies, percent=60)
    home.store.append(message(home.store.open_destination(QUEUE, "forgotten")))
    consumed(home, "orders", 30)
    sent_again(home)
    wait(home, HOUR_MS)
    home.pass_by(4_000)
    assert home.store.retention_hold().startswith("space waits for an export: queue://orders")
    wait(home, HOUR_MS)
    home.pass_by(4_000)
    told = home.store.retention_hold()
    assert told == "1 times messages were dropped at their deadline without an export"
    wait(home, HOUR_MS)
    home.pass_by(4_000)
    assert home.store.retention_hold() == told


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"{}",
        b"[]",
        b'{"format": 2, "store_id": "%s", "destinations": [1], "to_offset": 99999999}',
        b'{"format": 1, "store_id": "other", "destinations": [1], "to_offset": 99999999}',
        b'{"format": 1, "store_id": "%s", "destinations": ["x"], "to_offset": 99999999}',
    ],
)
def test_a_watermark_that_says_nothing_useful_is_as_none(octets: bytes) -> None:
    home = PolicyHome(Policies(orders=RetentionPolicy(until_exported=True)))
    consumed(home, "orders")
    export(home, 0)
    home.files.octets("data/exports/a.json")[:] = octets.replace(b"%s", home.store.store_id().encode())
    sent_again(home)
    wait(home, HOUR_MS)
    assert first_base(home) == 0
    assert home.store.retention_reason() == ""


def test_what_an_export_writes_the_gateway_reads(tmp_path: Path) -> None:
    write_watermark(tmp_path, "0a1b", exported_to("/lake/orders", "orders.>", 500, 3, 4))
    write_watermark(tmp_path, "0a1b", exported_to("/lake/all", ">", 400, 3, 4, 5))
    write_watermark(tmp_path, "0a1b", exported_to("/lake/all", ">", 450, 3, 4, 5, 6))
    found = read_watermarks(RealFiles(), str(tmp_path), "0a1b")
    assert [found.reached(number, QUEUE, "orders.eu") for number in (3, 4, 5, 6, 7)] == [
        (500, ""), (500, ""), (450, ""), (450, ""), (0, "")
    ]  # fmt: skip
    assert len(list((tmp_path / "exports").iterdir())) == 2
    assert read_watermarks(RealFiles(), str(tmp_path / "nothing"), "0a1b") == Watermarks()


def test_retention_understands_several_patterns(tmp_path: Path) -> None:
    union = "orders.>,queue://bills"
    write_watermark(tmp_path, "0a1b", exported_to("/lake", union, 500))
    write_watermark(tmp_path, "0a1b", Watermark("audit", parse("queue://bills,prices"), 400, 1, is_stream=True))
    found = read_watermarks(RealFiles(), str(tmp_path), "0a1b")
    assert sorted(str(mark.chosen) for mark in found.marks) == [union, "queue://bills,prices"]
    assert found.reached(3, QUEUE, "orders.eu") == (500, "")
    assert found.reached(4, QUEUE, "bills") == (400, "audit")
    assert found.reached(5, TOPIC, "bills") == (0, ""), "the export has the queue only"
    assert found.reached(6, QUEUE, "others") == (0, "")


def test_messages_stay_until_an_export_of_several_patterns_has_them() -> None:
    keep = RetentionPolicy(until_exported=True, export_deadline_ms=9 * HOUR_MS)
    home = PolicyHome(Policies(orders=keep, bills=keep))
    consumed(home, "orders")
    consumed(home, "bills")
    sent_again(home)
    export(home, 1 << 40, destination="queue://orders,prices")
    wait(home, HOUR_MS)
    held = first_base(home)
    assert "queue://bills is exported up to log offset 0 of " in home.store.retention_hold()
    export(home, 1 << 40, destination="queue://orders,bills")
    wait(home, 10_000)
    assert first_base(home) > held
    assert home.store.retention_hold() == ""


@pytest.mark.parametrize(("mask", "directories", "files"), [(0, 0o750, 0o640), (0o077, 0o700, 0o600)])
def test_a_watermark_is_no_more_readable_than_the_store(
    tmp_path: Path, mask: int, directories: int, files: int
) -> None:
    with umask(mask):
        write_watermark(tmp_path, "0a1b", exported_to("/lake/orders", "orders.>", 500, 3))
    assert modes(tmp_path / "exports") == ({directories}, {files})


def test_a_directory_of_watermarks_of_an_older_build_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports").chmod(0o755)
    write_watermark(tmp_path, "0a1b", exported_to("/lake/orders", "orders.>", 500, 3))
    assert modes(tmp_path / "exports") == ({0o750}, {0o640})


def test_every_stream_counts_and_of_exports_the_furthest(tmp_path: Path) -> None:
    stream = partial(Watermark, written_ms=1, is_stream=True)
    write_watermark(tmp_path, "0a1b", exported_to("/lake", ">", 500, 3))
    for mark in (
        stream("billing", parse("queue://orders.>"), 450),
        stream("audit", parse("orders.eu"), 400, has_messages=False),
        stream("prices", parse("topic://orders.>"), 100),
        stream("/lake", parse("bills"), 900),  # a stream may have the name of a directory
        stream("attempts", parse("failed"), 300, has_messages=False),
    ):
        write_watermark(tmp_path, "0a1b", mark)
    found = read_watermarks(RealFiles(), str(tmp_path), "0a1b")
    assert found.reached(3, QUEUE, "orders.eu") == (400, "audit")
    assert found.reached(3, QUEUE, "orders.us") == (450, "billing")
    assert found.reached(9, QUEUE, "orders.us") == (450, "billing"), "a later destination, which no export has"
    assert found.reached(3, TOPIC, "orders.us") == (100, "prices")
    assert found.reached(9, QUEUE, "bills") == (900, "/lake")
    assert found.reached(9, QUEUE, "failed") == (0, ""), "a table without messages frees none"
    forget_reader(tmp_path, True, "audit")
    found = read_watermarks(RealFiles(), str(tmp_path), "0a1b")
    assert found.reached(3, QUEUE, "orders.eu") == (450, "billing")
    with pytest.raises(StoreError, match="'audit'; the store knows '/lake', 'attempts', 'billing', 'prices'"):
        forget_reader(tmp_path, True, "audit")


def test_a_stream_and_an_export_never_share_a_file(tmp_path: Path) -> None:
    names = [("billing", True), ("stream billing", False), ("export stream billing", False), ("billing", False)]
    for to_offset, (name, is_stream) in enumerate(names):
        write_watermark(tmp_path, "11", Watermark(name, parse(">"), to_offset, 1, is_stream))
    marks = read_watermarks(RealFiles(), str(tmp_path), "11").marks
    assert sorted((mark.to_offset, mark.reader, mark.is_stream) for mark in marks) == [
        (to_offset, name, is_stream) for to_offset, (name, is_stream) in enumerate(names)
    ]


def test_the_pace_of_a_reader_is_that_of_its_last_minute(tmp_path: Path) -> None:
    def written(to_offset: int, second: int) -> float:
        mark = Watermark("billing", parse(">"), to_offset, second * 1000, is_stream=True)
        write_watermark(tmp_path, "0a1b", mark)
        (found,) = read_watermarks(RealFiles(), str(tmp_path), "0a1b").marks
        return found.pace()

    assert written(1_000, 10) == 0
    assert written(3_000, 30) == 100
    assert written(11_000, 110) == 100
    assert written(12_000, 111) == 1_000, "it goes on from the watermark before"
    assert written(12_000, 190) == 1_000 / 80
    assert written(12_000, 200) == 0
    assert written(11_000, 300) == 0, "it has begun anew"


def test_du_says_what_keeps_a_segment_that_nobody_needs(tmp_path: Path) -> None:
    policies = Policies(
        bills=RetentionPolicy(time_ms=3 * HOUR_MS), audit=RetentionPolicy(until_exported=True, bytes=1 << 40)
    )
    home = PolicyHome(policies)
    for name in ("bills", "audit", "orders"):
        consumed(home, name, 10)
    consumed(home, "orders")
    sent_again(home)
    wait(home, HOUR_MS)
    reader = copy_to(tmp_path, home.files)
    keeping = Keeping(policies, HOUR_MS, 1 << 50, START_WALL_MS + 2 * HOUR_MS)
    segments = space_of(reader, True, keeping).segments
    limit = f"{1 << 20}.0 GiB"
    now = f"{reader.end().offset / 1024:.1f} KiB"
    assert segments[0].reasons == [
        f"queue://bills: its retention, 60 minutes more or until the log from here on is over {limit} (now {now})",
        "queue://audit: waits for its export, which is at log offset 0 of 8192, 6 days more at most",
    ]
    assert segments[1].reasons == ["behind a segment that stays"]
    assert segments[-2].reasons == ["the next start begins here"] or segments[-1].is_current
    assert space_of(reader, True).segments[0].reasons == ["retention time or size, as the gateway's configuration says"]


def test_du_tells_a_size_of_its_own_and_what_there_is_of_it(tmp_path: Path) -> None:
    policies = Policies(orders=RetentionPolicy(bytes=20_000))
    home = PolicyHome(policies, percent=60)
    home.store.append(message(home.store.open_destination(QUEUE, "forgotten")))
    consumed(home, "orders")
    home.pass_by(4_000)
    reader = copy_to(tmp_path, home.files)
    keeping = Keeping(policies, HOUR_MS, 1 << 50, home.clock.wall_ms())
    pinned, *others = space_of(reader, True, keeping).segments
    assert [pin.owner for pin in pinned.pins] == ["queue://forgotten"]
    told = {segment.base: segment.reasons for segment in others if not segment.is_current}
    kept = [base for base, reasons in told.items() if reasons != [BEHIND]]
    # What has more than that behind it is empty; what has less stays, each with less behind it than the one before.
    assert kept == list(told)[-len(kept) :]
    assert 0 < len(kept) < len(told)
    texts = [told[base][0] for base in kept]
    assert all("its messages behind it are over 19.5 KiB (now " in text for text in texts)
    sizes = [float(text.rpartition("(now ")[2].partition(" ")[0]) for text in texts]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] <= 19.5


def test_words_for_times() -> None:
    told = [duration(ms) for ms in (-5, 999, 1_000, 119_999, 120_000, 7_199_000, 7_200_000, 172_800_000)]
    assert told == [
        "0 seconds",
        "0 seconds",
        "1 second",
        "119 seconds",
        "2 minutes",
        "119 minutes",
        "2 hours",
        "2 days",
    ]


def test_sizes_of_a_backlog() -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    number = consumed(home, "orders")
    home.workers.run_all()
    sizes = BacklogSizes(home.files, "data/consumequeue")
    key = (number << 4) | 4
    sizes.move(key, 10, 50)
    each = sizes.of([key]) // 40
    assert each > 100
    sizes.move(key, 30, 200)
    assert sizes.of([key]) == 170 * each
    sizes.move(key, 10, 200)
    assert sizes.of([key]) == 190 * each
    with pytest.raises((OSError, StoreError)):
        sizes.move(key, 10, 100_000)


def test_du_says_what_retention_is_about_to_drop(tmp_path: Path) -> None:
    policies = Policies()
    home = PolicyHome(policies)
    consumed(home, "orders", 10)
    consumed(home, "orders")
    sent_again(home)
    reader = copy_to(tmp_path, home.files)
    segments = space_of(reader, True, Keeping(policies, 0, 0, START_WALL_MS + HOUR_MS)).segments
    assert segments[0].reasons == ["retention drops it at its next check"]
