"""The fuzzer, for so many runs that nobody waits; ``--long`` for more.  It begins with the vectors."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).with_name("fuzz_amqp10_codec.py")
VECTORS = Path(__file__).parents[1] / "vectors" / "amqp10.json"


def test_fuzz_amqp10_codec(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("needs atheris, which has no wheel for this platform")
    if subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True, check=False).returncode != 0:
        pytest.skip("atheris is here but cannot be imported")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        octets = bytes.fromhex(vector["hex"])
        is_sasl = octets[5:6] == b"\x01" and vector["group"] not in ("primitive", "message")
        (corpus / vector["id"]).write_bytes(bytes((is_sasl, 6)) + octets)
    runs = 500_000 if request.config.getoption("--long", default=False) else 20_000
    command = [sys.executable, str(TARGET), f"-runs={runs}", "-max_len=512", "-seed=1", "-rss_limit_mb=1024"]
    done = subprocess.run(
        [*command, f"-artifact_prefix={tmp_path}/", str(corpus)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
