"""The one list of columns, and who must agree with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_bridge.arrow.schema import DEAD_LETTERS, MESSAGES, TABLES, chosen_tables

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("table", TABLES)
def test_the_documentation_lists_the_same_columns(table: str) -> None:
    page = (ROOT / "docs" / "reference" / "export.md").read_text()
    _, _, rest = page.partition(f"\n## Columns of `{table}`\n")
    section, _, _ = rest.partition("\n## ")
    listed, _, _ = section.partition("\n\n`")
    rows = [line.split(" | ")[:2] for line in listed.splitlines() if line.startswith("| `")]
    # The page does not repeat the columns of messages.
    others = {name for name, *_ in TABLES[MESSAGES]} if table == DEAD_LETTERS else set()
    assert rows == [[f"| `{name}`", spark_type] for name, _, spark_type, _ in TABLES[table] if name not in others]


def test_names_of_tables() -> None:
    assert chosen_tables("") == ()
    assert chosen_tables("deliveries, messages") == ("messages", "deliveries")
    with pytest.raises(ValueError, match="unknown table 'consumers'; penstock has messages, deliveries, dead_letters"):
        chosen_tables("messages,consumers")
