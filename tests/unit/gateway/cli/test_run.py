"""``penstock run`` where it cannot start: one clear text, no traceback, the exit code of its kind.

In processes of their own: a start configures logging and the event loop of the whole process.
"""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from config.scram import hash_password
from gateway.process import exit_codes
from tests.support.process.gateway_process import START_LIMIT_S

ROOT = Path(__file__).parents[4]


def run(data: Path, *argv: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "gateway", "run", "--json", "--data", str(data)]
    defaults = ["--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]
    process = subprocess.run(
        [*command, *defaults, *argv], cwd=ROOT, capture_output=True, timeout=START_LIMIT_S, check=False
    )
    assert process.stdout == b""
    text = process.stderr.decode()
    assert "Traceback" not in text
    return process.returncode, text


@pytest.mark.parametrize(("flag", "uri"), [("--stomp", "tcp://0.0.0.0:0"), ("--http", "http://0.0.0.0:0")])
def test_an_open_listener_without_users(tmp_path: Path, flag: str, uri: str) -> None:
    code, text = run(tmp_path / "data", flag, uri)
    assert code == exit_codes.USAGE
    assert f"{flag}: listeners.{flag.removeprefix('--')}: {uri} is open to the network" in text
    assert not (tmp_path / "data").exists()


def test_passwords_that_go_without_tls_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text(
        f"users:\n  ann:\n    verifiers:\n      - {hash_password('x', iterations=4096)[0]}\n"
    )
    (tmp_path / "file").write_text("")  # it does not start: no directory
    _, text = run(tmp_path / "file", "--config", str(tmp_path / "users.yaml"), "--stomp", "tcp://0.0.0.0:0")
    assert "tcp://0.0.0.0:0 is open to the network without TLS: passwords are sent unencrypted" in text


@pytest.mark.parametrize("flag", ["--stomp", "--http"])
def test_a_port_in_use(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        scheme = "tcp" if flag == "--stomp" else "http"
        code, text = run(tmp_path / "data", flag, f"{scheme}://127.0.0.1:{port}")
    assert code == exit_codes.FAILED
    assert "address already in use" in text
    assert f"listeners.{flag.removeprefix('--')} ({flag})" in text
    assert str(port) in text


def test_a_store_that_another_process_holds(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "lock").open("w") as lock:
        lock.write("4711")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, text = run(tmp_path / "data")
    assert code == exit_codes.STORE
    assert "4711" in text


@pytest.mark.damages_store("its file says another format")
def test_a_store_of_another_format(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "store.json").write_text('{"format": 999, "store_id": "00000000", "created_ms": 0}')
    code, _ = run(tmp_path / "data")
    assert code == exit_codes.STORE


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, text = run(tmp_path / "file")
    assert code == exit_codes.USAGE
    assert f"--data: data: '{tmp_path / 'file'}' is not a directory; allowed is a directory, or a path" in text


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, text = run(tmp_path / "file" / "data")
    assert code in (exit_codes.FAILED, exit_codes.STORE)
    assert "file" in text
