"""The load generator: its own tests, and a load of each kind at a real gateway."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bench.processes import AMQP, ROOT, STOMP, Gateway, build_loadgen, load

MANIFEST = ROOT / "bench" / "loadgen" / "Cargo.toml"


@pytest.fixture(scope="module")
def loadgen(is_long: bool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cargo") is None:
        pytest.skip("no cargo")
    if not is_long:
        pytest.skip("the long form builds the load generator")
    return build_loadgen(tmp_path_factory.mktemp("loadgen"))


def test_its_own_tests_pass(loadgen: Path) -> None:
    command = ["cargo", "test", "--locked", "--offline", "--quiet", "--manifest-path", str(MANIFEST)]
    done = subprocess.run(
        [*command, "--target-dir", str(loadgen.parents[1])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("protocol", [STOMP, AMQP])
@pytest.mark.parametrize(
    ("arguments", "deliveries"),
    [
        (["--persistent"], 2_000),
        (["--persistent", "--receipt-every", "1", "--producers", "3"], 2_000),
        (["--non-persistent", "--receipt-every", "0"], 2_000),
        (["--persistent", "--ack", "client", "--prefetch", "1", "--consumers", "4"], 2_000),
        (["--kind", "topic", "--ack", "auto", "--consumers", "3"], 6_000),
        (["--persistent", "--rate", "2000", "--producers", "2"], 2_000),
    ],
)
def test_each_message_comes_once(
    loadgen: Path, tmp_path: Path, protocol: str, arguments: list[str], deliveries: int
) -> None:
    gateway = Gateway(tmp_path / "gateway")
    try:
        gateway.start()
        report = load(loadgen, gateway, "load", 2_000, ["--size", "256", *arguments], protocol)
        again = load(loadgen, gateway, "load", 1_000, ["--mode", "produce"], protocol)
        drained = load(loadgen, gateway, "load", 1_000, ["--mode", "consume"], protocol)
    finally:
        gateway.stop()
    assert (report["received"], report["lost"], report["duplicates"], report["foreign"]) == (deliveries, 0, 0, 0)
    assert (again["sent"], drained["received"], drained["lost"]) == (1_000, 1_000, 0)


def test_a_refusal_is_reported(loadgen: Path, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "gateway")
    try:
        gateway.start()
        command = [str(loadgen), "--url", f"127.0.0.1:{gateway.port}", "--dest", "/nowhere/x", "--messages", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    finally:
        gateway.stop()
    assert done.returncode == 1
    assert "/nowhere/x" in done.stdout
