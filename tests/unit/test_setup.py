"""What the compiled build compiles."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_list_of_hot_files_fits_the_tree() -> None:
    """It names what stays interpreted, so a file that was renamed or split would be compiled unawares."""
    hot = runpy.run_path(str(ROOT / "setup.py"))["hot_files"]()
    assert {"engine/broker.py", "engine/store/commit_log.py", "protocols/stomp/session.py"} <= set(hot)
    assert all((ROOT / path).is_file() for path in hot)
