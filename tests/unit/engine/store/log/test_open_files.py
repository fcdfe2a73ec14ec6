"""Files that a reader's thread keeps open, and those that were dropped meanwhile."""

from __future__ import annotations

from engine.store.log.open_files import OpenFiles
from tests.support.disk.faulty_files import FaultyFiles


def test_dropped_files_are_closed_and_forgotten_behind_the_last_request_for_them() -> None:
    files = FaultyFiles()
    files.make_directory("d")
    for name in ("d/a", "d/b"):
        files.create(name).close()
    open_files = OpenFiles(files, 4)
    first = open_files.get("d/a", 0)
    open_files.dropped.update(("d/a", "d/b"))
    open_files.forget_dropped(["d/a"])
    assert open_files.dropped == {"d/b"}
    assert open_files.get("d/a", 0) is not first
    open_files.forget_dropped(["d/b"])
    assert open_files.dropped == set(), "it does not grow with every segment"
    open_files.close()


def test_only_so_many_files_stay_open() -> None:
    files = FaultyFiles()
    files.make_directory("d")
    for number in range(3):
        files.create(f"d/{number}").close()
    open_files = OpenFiles(files, 2)
    first = open_files.get("d/0", 0)
    open_files.get("d/1", 0)
    assert open_files.get("d/0", 0) is first
    open_files.get("d/2", 0)
    assert open_files.get("d/0", 0) is first, "the one that was used last stays"
    open_files.close()
