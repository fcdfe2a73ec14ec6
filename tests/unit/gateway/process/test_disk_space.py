"""What the file system says of the disk that holds the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.process.disk_space import StoreDisk


def test_a_disk_has_no_more_free_than_it_has(tmp_path: Path) -> None:
    total, free = StoreDisk(str(tmp_path)).measure()
    assert 0 < free <= total


def test_a_directory_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StoreDisk(str(tmp_path / "gone")).measure()
