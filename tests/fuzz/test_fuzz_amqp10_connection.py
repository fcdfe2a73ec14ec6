"""The fuzzer, for so many runs that nobody waits; ``--long`` for more.  tests/property runs without it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).with_name("fuzz_amqp10_connection.py")
VECTORS = Path(__file__).parents[1] / "vectors" / "amqp10.json"


def test_fuzz_amqp10_connection(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("needs atheris, which has no wheel for this platform")
    if subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True, check=False).returncode != 0:
        pytest.skip("atheris is here but cannot be imported")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        if vector["group"] not in ("primitive", "message"):
            (corpus / vector["id"]).write_bytes(b"\0" + bytes.fromhex(vector["hex"]))
    runs = 200_000 if request.config.getoption("--long", default=False) else 3_000
    command = [sys.executable, str(TARGET), f"-runs={runs}", "-max_len=512", "-seed=1", "-rss_limit_mb=1024"]
    done = subprocess.run(
        [*command, f"-artifact_prefix={tmp_path}/", str(corpus)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
