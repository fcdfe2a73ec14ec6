"""Fixtures that tests with a failing disk and with kills share."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def mount_tmpfs(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A function that mounts a tmpfs with the options of mount(8) that it is given, and returns where."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root and mount(8) for a tmpfs of its own")
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"may not mount a tmpfs here: {done.stderr.decode().strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], capture_output=True, check=True)


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """``--seed``, or one that is drawn; a test that uses it prints it."""
    given = pytestconfig.getoption("--seed")
    return int(given) if given is not None else random.SystemRandom().randrange(2**32)
