"""What the compiled build would stumble over, found without building it (docs/how-to/compiled.md)."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HOT_FILES = frozenset(runpy.run_path(str(ROOT / "setup.py"))["hot_files"]())
FOLDERS = ("config", "engine", "protocols", "gateway", "tests", "bench")


@dataclass(frozen=True, slots=True)
class Made:
    """A class.  bases: those of ours, as (file, name)."""

    path: str
    name: str
    bases: tuple[tuple[str, str], ...]
    is_open: bool
    is_trait: bool


def classes() -> Iterator[Made]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = str(file.relative_to(ROOT))
            tree = ast.parse(file.read_text())
            known = {
                alias.asname or alias.name: (node.module.replace(".", "/") + ".py", alias.name)
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module is not None
                for alias in node.names
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    named = [base.id for base in node.bases if isinstance(base, ast.Name)]
                    bases = tuple(known.get(base, (path, base)) for base in named)
                    is_open = any("allow_interpreted_subclasses" in ast.unparse(each) for each in node.decorator_list)
                    is_trait = any(ast.unparse(each) == "trait" for each in node.decorator_list)
                    yield Made(path, node.name, bases, is_open, is_trait)


CLASSES = {(made.path, made.name): made for made in classes()}
COMPILED = {key: made for key, made in CLASSES.items() if made.path in HOT_FILES}


def test_who_has_interpreted_subclasses_is_open_to_them() -> None:
    shut = [
        f"{base[0]}: {base[1]} lacks @mypyc_attr(allow_interpreted_subclasses=True) for {made.name} of {made.path}"
        for made in CLASSES.values()
        if made.path not in HOT_FILES
        for base in made.bases
        if base in COMPILED and not COMPILED[base].is_open
    ]
    assert shut == []


def test_an_open_class_has_open_bases() -> None:
    shut = [
        f"{base[0]}: {base[1]} lacks it, and {made.name} of {made.path} derives from it"
        for made in COMPILED.values()
        if made.is_open
        for base in made.bases
        if base in COMPILED and not COMPILED[base].is_open
    ]
    assert shut == []


def test_a_compiled_class_has_no_metaclass() -> None:
    """All compiled classes share ``ABC``'s cache of subclasses: cold files would be told that a session is a queue."""
    abstract = [
        f"{made.path}: {made.name} derives from {name}; @abstractmethod is enough, mypy knows it then"
        for made in COMPILED.values()
        for _, name in made.bases
        if name in ("ABC", "Protocol")
    ]
    assert abstract == []


def test_a_class_has_one_compiled_base() -> None:
    crowded = [
        f"{made.path}: {made.name} derives from {' and '.join(name for _, name in ours)}"
        for made in CLASSES.values()
        if len(ours := [base for base in made.bases if base in COMPILED]) > 1
    ]
    assert crowded == []


def test_no_class_is_a_trait() -> None:
    """An interpreted class cannot derive from one, nor from what does: its methods would be looked up wrongly."""
    assert [f"{made.path}: {made.name}" for made in CLASSES.values() if made.is_trait] == []


def test_nothing_compiled_derives_from_what_is_interpreted() -> None:
    """But exceptions, whose attributes nobody reads on the way of a message."""
    mixed = [
        f"{made.path}: {made.name} derives from {base[1]} of {base[0]}"
        for made in COMPILED.values()
        for base in made.bases
        if base in CLASSES and base not in COMPILED and not base[0].endswith("errors.py")
    ]
    assert mixed == []


def test_the_tree_is_seen() -> None:
    assert ("engine/ports/store.py", "Store") in COMPILED
    assert CLASSES["tests/support/store/memory_store.py", "MemoryStore"].bases == (("engine/ports/store.py", "Store"),)
