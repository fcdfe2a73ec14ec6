"""Every decision has one form: its number and subject, then context, decision and price."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).resolve().parents[3] / "docs" / "decisions").iterdir())
PARTS = ["Context", "Decision", "Price"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem[:4])
def test_a_decision_has_the_form(page: Path) -> None:
    number = re.fullmatch(r"(\d{4})-[a-z0-9-]+", page.stem)
    assert number, f"{page.name} begins with no number of four digits and a subject"
    text = page.read_text()
    assert text.startswith(f"# {int(number[1])}. "), "a decision begins with its number and subject"
    parts = re.findall(r"^(?:\*\*|## )(\w+)", text, re.MULTILINE)
    assert [part for part in parts if part in {*PARTS, "Choice", "Consequence", "Consequences"}] == PARTS


def test_numbers_are_used_once() -> None:
    numbers = [page.name[:4] for page in PAGES]
    assert len(numbers) > 40
    assert len(set(numbers)) == len(numbers)
