"""Pages and files that code, tests and docs refer to are in the clone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = (
    "bench",
    "config",
    "docs",
    "engine",
    "examples",
    "gateway",
    "protocols",
    "scripts",
    "spark_bridge",
    "tests",
    "what_if",
)
KINDS = tuple(place for place in (ROOT / "docs").iterdir() if place.is_dir())
PAGE = re.compile(r"(?<![\w./:-])[\w./-]*\w\.md\b")
# As seen from the root; a page may also name a file by its last part alone.
SOURCE = re.compile(rf"(?<![\w./-])(?:{'|'.join(ROOMS)})/[\w./-]*\w\.py\b")


def _missing(text: str, folder: Path) -> list[str]:
    """Return the pages that ``text`` names and that are neither in the root, in a folder of docs nor beside it."""
    places = (ROOT, folder, *KINDS)
    return [page for page in PAGE.findall(text) if not any((place / page).is_file() for place in places)]


def _texts() -> list[Path]:
    files = [file for room in ROOMS for kind in ("py", "md") for file in (ROOT / room).rglob(f"*.{kind}")]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml", "setup.py")]
    assert len(files) > 700
    return files


def test_every_page_is_there() -> None:
    missing = {
        str(file.relative_to(ROOT)): found for file in _texts() if (found := _missing(file.read_text(), file.parent))
    }
    assert missing == {}


def test_every_source_file_is_there() -> None:
    named = {(name, str(file.relative_to(ROOT))) for file in _texts() for name in SOURCE.findall(file.read_text())}
    assert len(named) > 20
    assert [(name, where) for name, where in sorted(named) if not (ROOT / name).is_file()] == []


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
