"""``penstock demo``, as a new user runs it: it checks its own numbers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process.gateway_process import ROOT


@pytest.mark.slow
def test_demo_does_the_whole_job(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "demo", "--data", str(tmp_path / "demo")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    lines = {words[0]: words[1:] for words in (line.split() for line in done.stdout.splitlines()) if words}
    assert lines["orders.eu"][0] == lines["orders.eu"][4] == "15,000"
    assert lines["orders.audit"] == ["20,000", "0", "0", "0", "20,000"]
    assert lines["ActiveMQ.DLQ"][0] == "30"
    assert re.search(r"killed after [0-9,]+ orders", done.stdout)
