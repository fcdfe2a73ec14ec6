"""``penstock store verify`` on directories."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.store.disk.directory_lock import take
from engine.store.plain_words import counted
from engine.values.destination import QUEUE
from gateway.__main__ import main
from gateway.process import exit_codes
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome


def a_store(directory: Path) -> Path:
    home = FileHome()
    home.send(home.store.open_destination(QUEUE, "orders"), 10)
    home.stop()
    copy_to(directory, home.files)
    return directory / "data"


def test_a_sound_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = a_store(tmp_path)
    assert main(["store", "verify", "--data", str(data)]) == exit_codes.OK
    assert "10 of them messages" in capsys.readouterr().out
    assert main(["store", "verify", "--data", str(data), "--json"]) == exit_codes.OK
    described = json.loads(capsys.readouterr().out)
    assert (described["findings"], described["message_count"], described["is_torn"]) == (0, 10, False)


@pytest.mark.damages_store("an octet is flipped")
def test_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = a_store(tmp_path)
    segment = data / "commitlog" / "00000000000000000000.log"
    octets = bytearray(segment.read_bytes())
    octets[octets.index(b"3 ...")] ^= 1
    segment.write_bytes(octets)
    assert main(["store", "verify", "--data", str(data)]) == exit_codes.STORE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{segment}, position ")
    assert lines[-1].endswith(": " + counted(len(lines) - 1, "finding"))
    assert main(["store", "verify", "--data", str(data), "--json"]) == exit_codes.STORE
    assert json.loads(capsys.readouterr().out.splitlines()[0])["path"] == str(segment)


def test_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "verify", "--data", str(tmp_path)]) == exit_codes.STORE
    assert f"{tmp_path} is not a store" in capsys.readouterr().err


@pytest.mark.damages_store("an octet is flipped")
def test_a_store_that_is_held_is_verified_as_a_copy(tmp_path: Path) -> None:
    """In a process of its own: it lowers its priority."""
    data = a_store(tmp_path)
    verify = [sys.executable, "-m", "gateway", "store", "verify", "--data", str(data)]
    before = sorted(data.rglob("*"))
    (data / "verifying-999999999").mkdir()  # of somebody who was killed
    with (data / "lock").open("r+b") as lock:
        assert take(lock.fileno())
        done = subprocess.run(verify, capture_output=True, text=True, check=False)
        assert done.returncode == exit_codes.OK
        assert "10 of them messages" in done.stdout
        queue = next(data.glob("commitlog/*.log"))
        octets = bytearray(queue.read_bytes())
        octets[octets.index(b"3 ...")] ^= 1
        queue.write_bytes(octets)
        done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == exit_codes.STORE
    found = done.stdout
    assert found.startswith(f"{queue}, position ") and "the checksum of a record does not match" in found
    assert sorted(data.rglob("*")) == before, "nothing is left of the copy"
