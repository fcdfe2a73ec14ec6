"""Places of copies for verification: apart, known as abandoned by their lock, and not by the number of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.store.verify.copies import place_for_copy, remove_abandoned
from tests.support.disk.modes import modes, umask

ROOT = Path(__file__).parents[5]
HOLDER = """
import sys
from pathlib import Path
from engine.store.verify.copies import place_for_copy
with place_for_copy(Path(sys.argv[1])) as place:
    place.mkdir()
    place.with_name(place.name + ".making").mkdir()
    print(place.name, flush=True)
    sys.stdin.read()
"""


def make(place: Path) -> None:
    for path in (place, place.with_name(place.name + ".making")):
        path.mkdir()
        (path / "store.json").write_text("{}")


def test_makers_with_the_same_number_of_a_process_do_not_meet(tmp_path: Path) -> None:
    """As two containers have that share a store; here they are in one process."""
    with ExitStack() as held:
        places = [held.enter_context(place_for_copy(tmp_path)) for _ in range(2)]
        for place in places:
            make(place)
        remove_abandoned(tmp_path)
        assert all((place / "store.json").exists() for place in places)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_of_a_verification_that_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), place_for_copy(tmp_path) as place:  # noqa: PT012
        make(place)
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_what_a_killed_one_has_left_is_removed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        place = tmp_path / holder.stdout.readline().strip()
        remove_abandoned(tmp_path)
        assert place.is_dir()
        holder.kill()
    assert len(list(tmp_path.iterdir())) == 3
    (tmp_path / "verifying-4711").mkdir()  # of an older build
    (tmp_path / "kept").mkdir()
    remove_abandoned(tmp_path)
    assert os.listdir(tmp_path) == ["kept"]


def test_a_lock_is_no_more_readable_than_the_store(tmp_path: Path) -> None:
    with umask(0), place_for_copy(tmp_path):
        assert modes(tmp_path)[1] == {0o640}
