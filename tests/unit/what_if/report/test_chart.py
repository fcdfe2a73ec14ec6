"""Reports as a picture and as text."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.support.what_if.recorded_world import ALWAYS, RecordedWorld, Sent, every, takes
from what_if.report.chart import COLOURS, PALE, chart_of
from what_if.report.results import Document, Result, document
from what_if.report.text import duration, text_of
from what_if.run import period_of, really


def report() -> Document:
    trace = RecordedWorld([*every(3, 200), Sent(600, "a<b", ALWAYS)], [("q", takes(5)), ("a<b", takes(1))]).trace()
    found = really(trace)
    period = period_of(trace)
    other = Result("present", found.figures)
    return document([found, other], period.start_ms, period.end_ms, period.part_ms)


def test_the_picture_is_an_svg_with_a_line_for_each_run() -> None:
    root = ElementTree.fromstring(chart_of(report()))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    lines = [one.get("stroke") for one in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert lines.count(COLOURS[0]) == lines.count(COLOURS[1]) == 6
    words = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "queue://a<b" in words


def test_the_table_has_a_column_for_each_run() -> None:
    lines = text_of(report()).split("\n")
    assert lines[0].split() == ["queue://a<b", "really", "present"]
    assert ["messages", "200", "200"] in [line.split() for line in lines]
    assert not any("expired" in line for line in lines)


def test_long_names_are_above_the_tables() -> None:
    found = report()
    long = "redelivery.maximum-redeliveries=0"
    found["runs"].append(long)
    for runs in found["destinations"].values():
        runs[long] = runs["really"]
    lines = text_of(found).split("\n")
    assert lines[0] == f"run 2: {long}"
    assert lines[2].split() == ["queue://a<b", "really", "present", "run", "2"]


def sweep(count: int) -> Document:
    """Return a report with so many combinations, each a copy of what happened but for one percentile."""
    found = report()
    for number in range(count):
        found["runs"].append(f"consumers={number}")
        for runs in found["destinations"].values():
            runs[f"consumers={number}"] = {**runs["really"], "time_in_queue_p99_ms": 1_000 * (count - number)}
    return found


def test_a_sweep_has_a_row_for_each_run() -> None:
    long = "redelivery.maximum-redeliveries=0"
    found = sweep(7)
    found["runs"].append(long)
    for runs in found["destinations"].values():
        runs[long] = runs["really"]
    lines = text_of(found).split("\n")
    assert lines[0].split()[:3] == ["queue://a<b", "messages", "acknowledged"]
    assert lines[1].split()[:3] == ["letters", "at", "the"]
    assert [line.split()[0] for line in lines[2:5]] == ["really", "present", "consumers=0"]
    assert lines[len(found["runs"]) + 1].split()[:2] == [long, "1"]


def test_a_sweep_has_bars_beside_the_present_ones() -> None:
    root = ElementTree.fromstring(chart_of(sweep(3)))
    words = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("consumers=2") == 1 + 2  # in the legend, and in the bars of both queues
    assert words.count("dead letters") == 2
    lines = list(root.iter("{http://www.w3.org/2000/svg}line"))
    assert len(lines) == 2 * 3  # where those of the present configuration end
    assert len(list(ElementTree.fromstring(chart_of(sweep(0))).iter("{http://www.w3.org/2000/svg}line"))) == 0


def test_a_large_sweep_draws_the_shortest_times_in_queue() -> None:
    root = ElementTree.fromstring(chart_of(sweep(100)))
    words = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "64 of 102 runs: those with the shortest time in queue, p99" in words
    assert "100 combinations: see the bars" in words
    assert [word for word in words if word.startswith("consumers=")] == [
        f"consumers={one}" for one in range(38, 100)
    ] * 2
    lines = [one.get("stroke") for one in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert (lines.count(COLOURS[0]), lines.count(COLOURS[1]), lines.count(PALE)) == (6, 6, 6 * 62)


def test_durations_have_three_digits() -> None:
    assert [duration(value) for value in (7, 1_234, 90_000, 5_400_000)] == ["7 ms", "1.23 s", "1.5 min", "1.5 h"]
