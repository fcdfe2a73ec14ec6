"""What can be set is read by somebody: a setting without a reader would be a promise that nobody keeps.

An attribute counts as read where engine/, protocols/ or gateway/ look at one of its name, or call a method of config/
that does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from config.address_schema import ADDRESS
from config.policies import AddressSettings
from config.schema import SERVER, Leaf, Tree

ROOT = Path(__file__).parents[3]
READERS = ("engine", "protocols", "gateway")


def attributes(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def methods() -> Iterator[tuple[str, set[str]]]:
    """Yield each function of config's policies and model, and the attributes that it looks at."""
    for name in ("policies", "redelivery_policy", "dead_letter_policy", "model", "matching"):
        for node in ast.walk(ast.parse((ROOT / "config" / f"{name}.py").read_text())):
            if isinstance(node, ast.FunctionDef):
                yield node.name, attributes(node)


@cache
def read_names() -> set[str]:
    found: set[str] = set()
    for room in READERS:
        for file in (ROOT / room).rglob("*.py"):
            found |= attributes(ast.parse(file.read_text()))
    while True:
        reached = set().union(*(names for name, names in methods() if name in found)) - found
        if not reached:
            return found
        found |= reached


def paths(tree: Tree) -> Iterator[str]:
    for below in tree.values():
        if isinstance(below, Leaf):
            yield below.path
        else:
            yield from paths(below)


@pytest.mark.parametrize("path", sorted({*paths(ADDRESS), *paths(SERVER)}))
def test_what_can_be_set_is_read(path: str) -> None:
    assert path.rsplit(".", 1)[-1] in read_names(), f"{path} can be set and no code reads it"


def test_all_that_an_address_has_can_be_set() -> None:
    groups = {path.split(".", 1)[0] for path in paths(ADDRESS)}
    assert groups == {field.name for field in fields(AddressSettings)}


def test_a_name_that_nobody_reads_is_found() -> None:
    assert "maximum_redelivery_delay_factor" in read_names()  # by way of drawn_ms, delay_ms and maximum_ms
    assert "no_such_setting" not in read_names()
