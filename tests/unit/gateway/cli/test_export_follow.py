"""``penstock export --follow``: what it takes, and what a signal does to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.cli.dispatch import execute
from gateway.process import exit_codes
from gateway.process.stop_signals import StopSignals
from spark_bridge.manifests import FOLDER
from tests.support.store.sample_store import SampleStore

ROOT = Path(__file__).parents[4]
LIMIT_S = 120.0


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--dry-run"], "--dry-run tells of one export"),
        (["--to", "b"], "--destination is given 1 time and --to 2 times; allowed is one --to for each --destination"),
        (["--master", "local[4]"], "--master is 'local[4]', allowed is none"),
        (["--interval", "10ms", "--nice", "0"], "--interval is '10ms'; allowed is a time"),
        (["--new-bytes", "much", "--nice", "0"], "--new-bytes is 'much'; allowed is a number of bytes"),
    ],
)
def test_what_it_does_not_take(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], text: str) -> None:
    arguments = ["export", "--destination", "a", "--data", str(tmp_path), "--to", str(tmp_path / "out"), "--follow"]
    assert execute([*arguments, *more]) == exit_codes.USAGE
    assert text in capsys.readouterr().err


@pytest.mark.damages_store("written by hand, without all that a gateway would write")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("count", [1, 2], ids=["one target", "two targets"])
def test_a_signal_ends_it_after_the_export_under_way(tmp_path: Path, number: signal.Signals, count: int) -> None:
    with SampleStore(tmp_path / "data") as store:
        store.send(store.destination("a"), b"x")
        store.publish()
    command = [sys.executable, "-m", "gateway", "export", "--follow", "--json", "--destination", "a"]
    others = ["--destination", ">", "--to", str(tmp_path / "other")] if count == 2 else []
    process = subprocess.Popen(
        [*command, "--data", str(tmp_path / "data"), "--to", str(tmp_path / "out"), *others],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        for _ in range(count):
            assert '"rows": 1' in process.stdout.readline()
        process.send_signal(number)
        told, failed = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, told, failed) == (exit_codes.OK, "", "")
    assert (tmp_path / "out" / FOLDER / "manifest-00000001.json").exists()


def test_the_first_signal_ends_a_wait_and_the_second_one_the_work() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        assert not signals.wait(0)
        threading.Timer(0, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert signals.wait(LIMIT_S)
        assert signals.wait(LIMIT_S)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
