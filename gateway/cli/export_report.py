"""What ``penstock export`` prints about one target."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from engine.store.plain_words import counted
from gateway.answers.wording import clock_time
from gateway.process.log_lines import one_line

if TYPE_CHECKING:
    from spark_bridge.result import Result


class ExportReport:
    """title: the target as people may see it.  is_alone: it is the only one, so lines on standard error lack it."""

    def __init__(self, title: str, is_json: bool, is_alone: bool) -> None:
        self._title = title
        self._is_json = is_json
        self._begin = "penstock: " if is_alone else f"penstock: {title}: "
        self._note = ""

    def done(self, result: Result) -> None:
        self._warn_of(result)
        self._print(result)

    def ended(self, error: Exception) -> None:
        """Tell why one of several targets has no export, or with --follow no more of them."""
        self._warn(one_line(str(error)))
        if self._is_json:
            print(json.dumps({"target": self._title, "error": str(error)}), flush=True)

    def exported(self, result: Result) -> None:
        if result.note != self._note:
            self._warn_of(result)
        if result.manifest:
            self._print(result)
        self._note = result.note

    def failed(self, error: Exception, failures: int, pause_s: float) -> None:
        self._warn(f"attempt {failures} failed, next in {pause_s:.0f} s: {error}")

    def back(self, failures: int) -> None:
        self._warn(f"exporting again after {counted(failures, 'attempt')}")

    def _warn_of(self, result: Result) -> None:
        if result.note:
            self._warn(result.note)

    def _warn(self, text: str) -> None:
        print(f"{self._begin}{text}", file=sys.stderr, flush=True)

    def _print(self, result: Result) -> None:
        told = {"target": self._title, **asdict(result)}
        print(json.dumps(told) if self._is_json else summary(result, self._title), flush=True)


def _rows(result: Result) -> str:
    if result.tables.keys() <= {"messages"}:
        return counted(result.rows, "message")
    return ", ".join(f"{counted(rows, 'row')} of {table}" for table, rows in result.tables.items())


def summary(result: Result, target: str) -> str:
    """Return the result as text."""
    from spark_bridge.log.lost import tell_damaged

    until = clock_time(result.to_time_ms)
    if not result.has_matched:
        return f"nothing exported, and {target} may take another pattern"
    if result.from_offset == result.to_offset:
        return f"nothing new: {target} holds {result.destination} up to log offset {result.to_offset}, {until}"
    gone = f"\nnot exported, because retention had removed it: {result.gone()}" if result.gone() else ""
    damaged = f"\nnot exported, because it is damaged: {tell_damaged(result.damaged)}" if result.damaged else ""
    is_done = not result.is_rehearsal
    told = (
        f"{_rows(result)} of {result.destination} in {counted(result.files, 'file')}, "
        f"{result.bytes / 1024 / 1024:.1f} MiB, {'added' if is_done else 'would be added'} to {target}\n"
        f"log offsets {result.from_offset} to {result.to_offset} of store {result.store_id}, up to {until}"
    )
    if not is_done:
        told += f"\npartitioned by {' and '.join(result.partitioning)}"
    for name, counts in result.destinations.items():
        told += f"\n  {name}: {counted(counts['rows'], 'row')}, {counts['bytes'] / 1024 / 1024:.1f} MiB"
    if is_done:
        told += f"\n{result.export_seconds:.1f} s"
        if result.jvm_seconds >= 0.05:
            told += f", and {result.jvm_seconds:.1f} s to start Spark"
    return f"{told}{gone}{damaged}"
