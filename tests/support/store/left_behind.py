"""Verifies every store that a test leaves behind, on the disk in memory and in its ``tmp_path``.

A test that damages a store on purpose has a marker: ``@pytest.mark.damages_store("what it does")``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.store.disk.files import RealFiles
from engine.store.verify.findings import Verification
from engine.store.verify.store_check import verify
from gateway.settings.message_keys import MESSAGE_KEYS

if TYPE_CHECKING:
    from tests.support.store.store_home import FileHome

MARKER: Final = "damages_store"
DEPTH_MOST: Final = 3  # depth of directories below tmp_path in which stores are searched
FINDINGS_SHOWN: Final = 5
SUMS: Final = " live bytes, its messages come to "

HOMES: list[FileHome] = []  # made by the running test


def check_homes() -> None:
    """Verify each store in memory as a kill now would leave it.  A disk that still fails is skipped."""
    homes = HOMES[:]
    HOMES.clear()
    for home in homes:
        if not home.files.is_crashed and not home.files.is_faulty():
            files = home.files.killed()
            if files.exists("data/store.json"):
                _expect_sound(verify(files, "data", MESSAGE_KEYS), "data")


def check_directory(directory: Path) -> None:
    """Verify each store below a directory."""
    for depth in range(1, DEPTH_MOST + 1):
        for path in directory.glob("/".join(["*"] * (depth - 1) + ["store.json"])):
            store = path.parent
            if (store / "commitlog").is_dir():
                _expect_sound(verify(RealFiles(), str(store), MESSAGE_KEYS), str(store))


def _expect_sound(found: Verification, what: str) -> None:
    # A test in the engine's place often gives no sizes of settled messages, so the sums of live bytes are left out.
    # The simulations and the tests of the real process check them.
    findings = [finding for finding in found.findings if SUMS not in finding.text]
    shown = "; ".join(map(str, findings[:FINDINGS_SHOWN]))
    assert not findings, f"the test leaves a store behind that is not sound, {what}: {shown}"
