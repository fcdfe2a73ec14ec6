"""Programs in other languages that run scenarios by name, and print ``ok NAME`` or ``failed NAME: why`` for each."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# A JVM that lives for seconds: its second compiler and its parallel collector take more time than they save.
SHORT_LIVED_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def run_scenarios(
    command: Sequence[str], names: Sequence[str], limit_s: float, directory: Path | None = None
) -> dict[str, str]:
    """Return the outcome of each scenario, "" for success."""
    done = subprocess.run(
        [*command, *names], cwd=directory, capture_output=True, text=True, timeout=limit_s, check=False
    )
    outcomes: dict[str, str] = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("ok", "failed"):
            name, _, why = rest.partition(": ")
            outcomes[name] = why if word == "failed" else ""
    assert set(outcomes) == set(names), done.stdout[-2000:] + done.stderr[-2000:]
    return outcomes
