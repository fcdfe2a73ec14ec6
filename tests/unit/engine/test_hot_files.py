"""What the compiled build would stumble over, found without building it (docs/how-to/compiled.md)."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.interpreted

ROOT = Path(__file__).resolve().parents[3]
HOT_FILES = frozenset(runpy.run_path(str(ROOT / "setup.py"))["hot_files"]())
FOLDERS = ("config", "engine", "protocols", "gateway", "what_if", "tests", "bench")
CLASS = re.compile(r"^ *class ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Made:
    """A class.  bases: those of ours, as (file, name).  is_data: a dataclass."""

    path: str
    name: str
    bases: tuple[tuple[str, str], ...]
    is_open: bool
    is_trait: bool
    is_data: bool


Classes = dict[tuple[str, str], Made]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the statements below ``node`` and leave out their expressions, which hold no class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from statements(child)


def classes() -> Iterator[Made]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = str(file.relative_to(ROOT))
            text = file.read_text()
            if not CLASS.search(text):
                continue
            nodes = list(statements(ast.parse(text)))
            known = {
                alias.asname or alias.name: (node.module.replace(".", "/") + ".py", alias.name)
                for node in nodes
                if isinstance(node, ast.ImportFrom) and node.module is not None
                for alias in node.names
            }
            for node in nodes:
                if isinstance(node, ast.ClassDef):
                    named = [base.id for base in node.bases if isinstance(base, ast.Name)]
                    bases = tuple(known.get(base, (path, base)) for base in named)
                    is_open = any("allow_interpreted_subclasses" in ast.unparse(each) for each in node.decorator_list)
                    is_trait = any(ast.unparse(each) == "trait" for each in node.decorator_list)
                    is_data = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
                    yield Made(path, node.name, bases, is_open, is_trait, is_data)


@pytest.fixture(scope="module")
def made() -> Classes:
    """All classes, read once a module: a collection must not wait for it."""
    return {(one.path, one.name): one for one in classes()}


@pytest.fixture(scope="module")
def compiled(made: Classes) -> Classes:
    return {key: one for key, one in made.items() if one.path in HOT_FILES}


def test_who_has_interpreted_subclasses_is_open_to_them(made: Classes, compiled: Classes) -> None:
    shut = [
        f"{base[0]}: {base[1]} lacks @mypyc_attr(allow_interpreted_subclasses=True) for {one.name} of {one.path}"
        for one in made.values()
        if one.path not in HOT_FILES
        for base in one.bases
        if base in compiled and not compiled[base].is_open
    ]
    assert shut == []


def test_an_open_class_has_open_bases(compiled: Classes) -> None:
    shut = [
        f"{base[0]}: {base[1]} lacks it, and {one.name} of {one.path} derives from it"
        for one in compiled.values()
        if one.is_open
        for base in one.bases
        if base in compiled and not compiled[base].is_open
    ]
    assert shut == []


def test_a_compiled_class_has_no_metaclass(compiled: Classes) -> None:
    """All compiled classes share ``ABC``'s cache of subclasses: cold files would be told that a session is a queue."""
    abstract = [
        f"{one.path}: {one.name} derives from {name}; @abstractmethod is enough, mypy knows it then"
        for one in compiled.values()
        for _, name in one.bases
        if name in ("ABC", "Protocol")
    ]
    assert abstract == []


def test_a_class_has_one_compiled_base(made: Classes, compiled: Classes) -> None:
    crowded = [
        f"{one.path}: {one.name} derives from {' and '.join(name for _, name in ours)}"
        for one in made.values()
        if len(ours := [base for base in one.bases if base in compiled]) > 1
    ]
    assert crowded == []


def test_nothing_compiled_derives_from_a_compiled_dataclass(compiled: Classes) -> None:
    """``super().__init__`` would not set the fields."""
    derived = [
        f"{one.path}: {one.name} derives from {base[1]} of {base[0]}"
        for one in compiled.values()
        for base in one.bases
        if base in compiled and compiled[base].is_data
    ]
    assert derived == []


def test_no_class_is_a_trait(made: Classes) -> None:
    """An interpreted class cannot derive from one, nor from what does: its methods would be looked up wrongly."""
    assert [f"{one.path}: {one.name}" for one in made.values() if one.is_trait] == []


def test_nothing_compiled_derives_from_what_is_interpreted(made: Classes, compiled: Classes) -> None:
    """But exceptions, whose attributes nobody reads on the way of a message."""
    mixed = [
        f"{one.path}: {one.name} derives from {base[1]} of {base[0]}"
        for one in compiled.values()
        for base in one.bases
        if base in made and base not in compiled and not base[0].endswith("errors.py")
    ]
    assert mixed == []


def type_checking_only(tree: ast.Module) -> set[str]:
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


@pytest.mark.parametrize("path", sorted(HOT_FILES))
def test_a_field_of_a_dataclass_has_a_type_that_is_imported(path: str) -> None:
    """mypyc loads the type of each field when the class is made: what is missing then is a segmentation fault."""
    tree = ast.parse((ROOT / path).read_text())
    absent = type_checking_only(tree)
    made = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    fields = [
        (each.name, field)
        for each in made
        if any("dataclass" in ast.unparse(one) for one in each.decorator_list)
        for field in each.body
        if isinstance(field, ast.AnnAssign)
    ]
    assert [f"{name}.{ast.unparse(field)}" for name, field in fields if ast.unparse(field.annotation) in absent] == []


def test_the_tree_is_seen(made: Classes, compiled: Classes) -> None:
    assert ("engine/ports/store.py", "Store") in compiled
    assert made["what_if/ports/virtual_store.py", "VirtualStore"].bases == (("engine/ports/store.py", "Store"),)
