"""The glossary and the names of the engine's classes: what one says is in the other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("config", "engine", "protocols", "gateway", "spark_bridge", "what_if")


def _rows() -> dict[str, str]:
    lines = (ROOT / "docs" / "reference" / "glossary.md").read_text().splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| ")]
    return {row[1].strip(): row[2] for row in rows if row[1].strip() != "word"}


def _classes(*files: Path) -> set[str]:
    return {
        node.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def _explained() -> set[str]:
    """Return the words of the glossary as a class would be called, and the classes that it names."""
    rows = _rows()
    words = {word.title() for word in rows} | {f"{word.title()}s" for word in rows}
    return words | set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`", "".join(rows.values())))


def test_the_words_are_in_their_order() -> None:
    words = list(_rows())
    assert len(words) > 60
    assert words == sorted(words, key=str.lower)


def test_a_class_that_the_glossary_names_is_there() -> None:
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`", "".join(_rows().values())))
    assert "Feed" in named
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    assert named - _classes(*files) == set()


def test_a_class_of_one_word_is_explained() -> None:
    words = {
        name
        for name in _classes(
            *(
                file
                for file in (ROOT / "engine").glob("**/*.py")
                if not {"store", "selector", "scheduler"} & set(file.parts)
            )
        )
        if re.fullmatch("[A-Z][a-z]+", name)
    }
    assert words - _explained() == set()
