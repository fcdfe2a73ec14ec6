"""The pictures of the docs are those that scripts/screenshots takes, and small."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.support.process.screenshots import IMAGES, PICTURES

ROOT: Final = Path(__file__).resolve().parents[3]
PICTURE: Final = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
BYTES_MOST: Final = 60_000  # of one


def test_pages_show_what_the_script_takes() -> None:
    shown: set[Path] = set()
    for page in (ROOT / "docs").rglob("*.md"):
        for said, path in PICTURE.findall(page.read_text()):
            assert said, f"{page} shows {path} without a text for those who do not see it"
            shown.add((page.parent / path).resolve())
    taken = {IMAGES / f"{name}.webp" for name in PICTURES}
    assert shown == taken
    assert set(IMAGES.iterdir()) == taken


def test_they_are_small() -> None:
    sizes = {file.name: file.stat().st_size for file in IMAGES.iterdir()}
    assert {name: size for name, size in sizes.items() if size > BYTES_MOST} == {}
    assert all(file.read_bytes()[8:12] == b"WEBP" for file in IMAGES.iterdir())
