"""Pages that code, tests and docs refer to are in the clone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("bench", "config", "docs", "engine", "examples", "gateway", "protocols", "scripts", "spark_bridge", "tests")
KINDS = tuple(place for place in (ROOT / "docs").iterdir() if place.is_dir())
PAGE = re.compile(r"(?<![\w./:-])[\w./-]*\w\.md\b")


def _missing(text: str, folder: Path) -> list[str]:
    """Return the pages that ``text`` names and that are neither in the root, in a folder of docs nor beside it."""
    places = (ROOT, folder, *KINDS)
    return [page for page in PAGE.findall(text) if not any((place / page).is_file() for place in places)]


def test_every_page_is_there() -> None:
    files = [file for room in ROOMS for kind in ("py", "md") for file in (ROOT / room).rglob(f"*.{kind}")]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml", "setup.py")]
    assert len(files) > 700
    missing = {
        str(file.relative_to(ROOT)): found for file in files if (found := _missing(file.read_text(), file.parent))
    }
    assert missing == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Source: docs/reference/stomp.md, [there](flow-control.md#memory), CHANGELOG.md", []),
        ("Source: design" + ".md 4; (wire/stomp" + ".md 8)", ["design" + ".md", "wire/stomp" + ".md"]),
        ("https://example.org/other" + ".md", []),
    ],
)
def test_what_is_found(text: str, expected: list[str]) -> None:
    assert _missing(text, ROOT) == expected
