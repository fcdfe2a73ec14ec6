"""An export of 1,000 messages into a target that has had many exports.

    .venv/bin/python -m bench.commits_bench                        after 100, 10,000 and 100,000 commits
    .venv/bin/python -m bench.commits_bench --commits 1000 --runs 9

The first commit of a target is a real export.  The others are written by this program as exports write them, without
syncs: a manifest, a commit of the Delta log that adds one file (a copy of the first one's), and of the
checkpoints the last one that an export would have written.  Each export has 1,000 new messages.  *Alone* is
``penstock export --master none``, each time a process of its own; *with Spark* has one session and opens the target
anew each time.  *Checkpoint* is an export that has to write one.  Seconds are those of the export, without the start of
Python or the JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.export_bench import ROOT, make_store
from spark_bridge.delta.checkpoint import LAST, write_checkpoint
from spark_bridge.delta.log import COMMITS_WITHOUT_CHECKPOINT, FOLDER, Snapshot
from spark_bridge.export import Request, export
from spark_bridge.files.choice import files_at
from spark_bridge.spark import session
from spark_bridge.target import target_at

if TYPE_CHECKING:
    from pyspark import SparkContext

MESSAGES: Final = 1_000
FILES_A_DAY: Final = 1_440


def grow(lake: Path, commits: int) -> None:
    """Add exports, each of one file, until there are so many commits."""
    target = target_at(lake)
    last = target.last()
    assert last is not None and last.number == 1
    log = lake / FOLDER
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    (file,) = last.files
    snapshot = Snapshot()
    snapshot.take(lines)
    adds = [line for line in lines if "add" in line]
    others = [line for line in lines if "commitInfo" in line or "txn" in line]
    at = 0
    for version in range(1, commits):
        folder = f"date=2020-{1 + version // FILES_A_DAY // 28:02}-{1 + version // FILES_A_DAY % 28:02}"
        path = f"{folder}/{version:08}.parquet"
        if version % FILES_A_DAY == 0 or version == 1:
            (lake / folder).mkdir(exist_ok=True)
            of_day = lake / folder / "first.parquet"
            shutil.copy(lake / file.path, of_day)
        os.link(of_day, lake / path)
        manifest = replace(last, number=version + 1, from_offset=last.to_offset, files=(replace(file, path=path),))
        told = asdict(manifest) | {"rows": manifest.rows, "bytes": manifest.bytes}
        (lake / f"_penstock/manifest-{version + 1:08}.json").write_text(f"{json.dumps(told, indent=1)}\n")
        add = {"add": adds[0]["add"] | {"path": path, "partitionValues": {"date": folder[5:]}}}
        (log / f"{version:020}.json").write_text("".join(f"{json.dumps(one)}\n" for one in (*others, add)))
        snapshot.take([add])
        if version - at >= max(COMMITS_WITHOUT_CHECKPOINT, len(snapshot.added) // 10):
            at, state = version, snapshot.actions(0)
    if at:
        write_checkpoint(files_at(lake), FOLDER, at, state)


def add_messages(data: Path) -> None:
    make_store(data, MESSAGES, 1024, "bytes", False)


def alone(data: Path, lake: Path) -> float:
    """Return the seconds of one export in a process of its own."""
    command = [sys.executable, "-m", "gateway", "export", "--data", str(data), "--destination", ">", "--json"]
    command += ["--to", str(lake), "--master", "none"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return _checked(json.loads(done.stdout))


def with_spark(data: Path, lake: Path, spark: SparkContext) -> float:
    return _checked(asdict(export(Request(data, ">", lake), spark=spark)))


def _checked(told: dict[str, Any]) -> float:
    assert told["rows"] == MESSAGES, told
    return float(told["export_seconds"])


def measure(work: Path, commits: int, runs: int, spark: SparkContext) -> dict[str, object]:
    work.mkdir()
    data, lake = work / "data", work / "lake"
    add_messages(data)
    export(Request(data, ">", lake, master="none", partitioning=("date",)))
    began = time.monotonic()
    grow(lake, commits)
    found: dict[str, object] = {"generated in s": round(time.monotonic() - began, 1)}
    times: dict[str, list[float]] = {"alone": [], "with Spark": []}
    for _ in range(runs):
        add_messages(data)
        times["alone"].append(alone(data, lake))
        add_messages(data)
        times["with Spark"].append(with_spark(data, lake, spark))
    found |= {name: {"s": each, "median": statistics.median(each)} for name, each in times.items()}
    (lake / FOLDER / LAST).write_text(json.dumps({"version": 0, "size": 1}))
    add_messages(data)
    return found | {"checkpoint": alone(data, lake)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--commits", type=int, nargs="+", default=[100, 10_000, 100_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work", type=Path, help="directory for the stores and targets meanwhile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.work) as name:
        work = Path(name)
        (work / "scratch").mkdir()
        spark = session.start("local[2]", work / "scratch")
        result = {
            commits: measure(work / str(commits), commits, arguments.runs, spark) for commits in arguments.commits
        }
        spark.stop()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
