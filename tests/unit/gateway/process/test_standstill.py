"""A loop that stands still says where."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gateway.process.standstill import StandstillWatch
from tests.support.process.gateway_process import ROOT

STANDING_STILL = """
import time
from gateway.process.standstill import StandstillWatch
def endless():
    while True:
        time.sleep(0.01)
StandstillWatch(0.1).check()
endless()
"""


def test_its_stack_is_printed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STANDING_STILL], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "in endless" in line:
                break
        else:
            pytest.fail("the process has ended without its stack")
        process.kill()


@pytest.mark.parametrize(("passed_s", "lines"), [(9.0, 0), (12.0, 1)])
def test_its_length_is_logged_once_it_goes_on(caplog: pytest.LogCaptureFixture, passed_s: float, lines: int) -> None:
    now = [0.0]
    watch = StandstillWatch(10.0, lambda: now[0])
    try:
        watch.check()
        now[0] += passed_s
        watch.check()
        now[0] += 1.0
        watch.check()
    finally:
        watch.stop()
    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        "the event loop stood still for 12 s"
    ] * lines
