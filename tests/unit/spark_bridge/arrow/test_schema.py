"""The one list of columns, and who must agree with it."""

from __future__ import annotations

from pathlib import Path

from spark_bridge.arrow.schema import COLUMNS

ROOT = Path(__file__).parents[4]


def test_the_documentation_lists_the_same_columns() -> None:
    page = ROOT / "docs" / "reference" / "export.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    listed = [row for row in rows if any(row.startswith(f"| `{name}` | {kind} |") for name, _, kind, _ in COLUMNS)]
    assert len(listed) == len(COLUMNS)
