"""What an older build made readable for everybody is narrowed when it is met again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from engine.store.disk.modes import is_wider, narrow, open_as_store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("before", "after"), [(0o755, 0o750), (0o777, 0o750), (0o700, 0o700), (0o2775, 0o2750), (0o1777, 0o1750)]
)
def test_a_directory(tmp_path: Path, before: int, after: int) -> None:
    directory = tmp_path / "old"
    directory.mkdir()
    directory.chmod(before)
    assert is_wider(str(directory)) is (before != after)
    narrow(str(directory))
    assert (mode(directory), is_wider(str(directory))) == (after, False)


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o640), (0o666, 0o640), (0o600, 0o600), (0o400, 0o400)])
def test_a_file_that_is_opened(tmp_path: Path, before: int, after: int) -> None:
    file = tmp_path / "old"
    file.write_text("x")
    file.chmod(before)
    with open(file, "rb", opener=open_as_store) as opened:
        assert opened.read() == b"x"
    assert mode(file) == after


def test_what_a_link_names_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere").chmod(0o755)
    (tmp_path / "link").symlink_to("elsewhere")
    narrow(str(tmp_path / "link"))
    assert mode(tmp_path / "elsewhere") == 0o755


@pytest.mark.skipif(os.geteuid() == 0, reason="root owns them")
def test_what_belongs_to_others_keeps_its_mode() -> None:
    assert not is_wider("/")
