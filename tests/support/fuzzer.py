"""Runs of the fuzzers in tests/fuzz, with atheris where it can be imported and a corpus of each test."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

FUZZERS = Path(__file__).parents[1] / "fuzz"


def run_fuzzer(name: str, runs: int, corpus: Mapping[str, bytes], directory: Path, *options: str) -> None:
    """Let ``tests/fuzz/<name>.py`` make ``runs`` runs; fail with its report if it finds anything.

    corpus: its first inputs, by name.  directory: for the corpus and for a finding's octets, which are also at the end
    of the report, in base64.  options: of libFuzzer.
    """
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("needs atheris, which has no wheel for this platform")
    if subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True, check=False).returncode != 0:
        pytest.skip("atheris is here but cannot be imported")
    place = directory / "corpus"
    place.mkdir()
    for key, octets in corpus.items():
        (place / key).write_bytes(octets)
    command = [sys.executable, str(FUZZERS / f"{name}.py"), f"-runs={runs}", "-max_len=512", "-seed=1"]
    command += ["-rss_limit_mb=1024", f"-artifact_prefix={directory}/", *options, str(place)]
    # On Linux a process' peak of memory begins with the peak of the one that starts it, and libFuzzer's limit looks at
    # the peak.  A shell between them starts the count anew, however much this process has used before.
    fresh = ["sh", "-c", '"$@"; exit $?', "sh", *command]
    done = subprocess.run(fresh, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-6000:]}\nagain: {' '.join(command)}"
    assert f"Done {runs} runs" in done.stderr
