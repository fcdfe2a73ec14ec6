"""syncfs of the machine, where it can be trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.store.disk.file_system_sync import RealWholeSync, is_telling
from engine.store.disk.files import RealFiles


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("5.17.0", True),
        ("6.1.0-13-amd64", True),
        ("10.0", True),
        ("5.16.20", False),
        ("5.4.0-150-generic", False),
        ("4.18.0-553.el8_10.x86_64", False),
        ("6", False),
        ("", False),
        ("6.x", False),
    ],
)
def test_kernels_that_tell_of_all_that_failed(release: str, expected: bool) -> None:
    assert is_telling(release) is expected


def test_a_directory_that_is_not_there_is_not_synced(tmp_path: Path) -> None:
    assert RealFiles().open_whole(str(tmp_path / "missing")) is None


def test_a_file_system_that_may_keep_errors_to_itself_is_not_trusted() -> None:
    assert RealFiles().open_whole("/proc") is None


def test_everything_is_synced(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"octets")
    whole = RealFiles().open_whole(str(tmp_path))
    if whole is not None:  # as the machine's file system is
        whole.sync()
        whole.close()
        whole.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            whole.sync()


def test_an_error_of_the_system_is_raised(tmp_path: Path) -> None:
    import ctypes

    descriptor = os.open(tmp_path, os.O_RDONLY)
    whole = RealWholeSync(ctypes.CDLL(None, use_errno=True), descriptor)
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        whole.sync()
