"""Jobs of one call: its result, or why the disk refused it."""

from __future__ import annotations

import pytest

from engine.store.disk.disk_job import DiskJob
from engine.values.errors import StoreCorrupt


def test_a_result_comes_without_a_reason() -> None:
    answers: list[tuple[int | None, str]] = []
    job = DiskJob(lambda: 7, lambda result, reason: answers.append((result, reason)))
    job.run()
    assert answers == [], "it is handed over on the engine's thread"
    job.finish()
    assert answers == [(7, "")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "data: No space left on device"),
        (OSError(5, "Input/output error", "data/x.log"), "data/x.log: Input/output error"),
        (StoreCorrupt("data/x.log, position 0: damaged"), "data/x.log, position 0: damaged"),
    ],
)
def test_a_refusal_names_the_file_or_the_place(error: Exception, reason: str) -> None:
    def refuse() -> int:
        raise error

    answers: list[tuple[int | None, str]] = []
    job = DiskJob(refuse, lambda result, why: answers.append((result, why)), "data")
    job.run()
    job.finish()
    assert answers == [(None, reason)]


def test_nobody_has_to_wait_for_the_answer() -> None:
    calls: list[str] = []
    job = DiskJob(lambda: calls.append("called"))
    job.run()
    job.finish()
    assert calls == ["called"]
