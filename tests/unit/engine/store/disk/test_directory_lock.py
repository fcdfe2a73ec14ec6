"""A reader asks the kernel whether a gateway holds the store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.store.disk.directory_lock import is_held, names_living_process, take
from engine.store.disk.files import RealFiles

ROOT = Path(__file__).parents[5]
ASK = """
import sys
from pathlib import Path
from engine.store.disk.directory_lock import is_held
print(is_held(Path(sys.argv[1])))
"""
IN_ANOTHER_NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def test_a_lock_is_seen_while_it_is_held_and_not_by_a_file_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    lock = RealFiles().lock(str(path))
    assert lock is not None
    assert is_held(path)
    assert RealFiles().lock(str(path)) is None
    lock.close()
    path.write_text(str(os.getpid()))
    assert not is_held(path), "a pid in the file holds nothing"


def test_asking_keeps_nobody_from_taking_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with open(path, "rb") as asking:
        assert not is_held(path)
        with open(path, "r+b") as mine:
            assert take(mine.fileno())
            assert is_held(path)
        assert not asking.read()
    assert not is_held(path)


def test_whoever_holds_the_lock_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = RealFiles().lock(str(path))
    assert first is not None
    with open(path, "r+b") as second:
        assert not take(second.fileno())
    first.close()


def test_another_process_sees_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert asked(path, []) == "False"
    lock = RealFiles().lock(str(path))
    assert lock is not None
    assert asked(path, []) == "True"
    lock.close()


def test_another_pid_namespace_sees_it(tmp_path: Path) -> None:
    if subprocess.run([*IN_ANOTHER_NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a PID namespace")
    path = tmp_path / "lock"
    assert asked(path, IN_ANOTHER_NAMESPACE) == "False"
    lock = RealFiles().lock(str(path))
    assert lock is not None
    assert asked(path, IN_ANOTHER_NAMESPACE) == "True"
    lock.close()


def asked(path: Path, prefix: list[str]) -> str:
    command = [*prefix, sys.executable, "-c", ASK, str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_where_the_file_system_knows_no_such_locks_the_pid_tells() -> None:
    assert names_living_process(b"%d\n" % os.getpid())
    assert not names_living_process(b"%d" % (2**22 + 1)), "above the largest pid"
    assert not names_living_process(b"47\xcc1"), "what is no pid tells nothing"
    assert not names_living_process(b"0") and not names_living_process(b"")
