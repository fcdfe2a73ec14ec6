"""The table of keys: complete, honest about its defaults, helpful about what it does not have."""

from __future__ import annotations

import dataclasses
import operator
import re
from pathlib import Path
from typing import Any

import pytest

from config.address_schema import ADDRESS
from config.model import ServerConfig
from config.policies import AddressSettings
from config.schema import LISTS, PERMISSION_KEYS, SERVER, Leaf, UnknownKey, leaf_at, leaves

ROOT = Path(__file__).parents[3]

# Fields that no key sets, because they are no single values.
NOT_SINGLE_VALUES = {
    "users", "access_tokens", "groups", "permissions", "virtual_topics", "destinations", "addresses", "sources",
    "notes",
}  # fmt: skip


def attribute_paths(settings: Any, prefix: str = "") -> set[str]:
    paths: set[str] = set()
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        is_group = dataclasses.is_dataclass(value) and not field.name.startswith(("stomp_", "http_"))
        if is_group and type(value).__name__ != "Endpoint":
            paths |= attribute_paths(value, f"{prefix}{field.name}.")
        else:
            paths.add(prefix + field.name)
    return paths


def test_every_setting_of_the_server_has_a_key() -> None:
    assert {leaf.path for leaf in leaves(SERVER).values()} == attribute_paths(ServerConfig()) - NOT_SINGLE_VALUES


def test_every_setting_of_an_address_has_a_key() -> None:
    assert {leaf.path for leaf in leaves(ADDRESS).values()} == attribute_paths(AddressSettings())


@pytest.mark.parametrize(
    ("leaf", "settings"),
    [(leaf, ServerConfig()) for leaf in leaves(SERVER).values()]
    + [(leaf, AddressSettings()) for leaf in leaves(ADDRESS).values()],
    ids=lambda value: value.path if isinstance(value, Leaf) else "",
)
def test_every_default_is_within_its_own_range(leaf: Leaf, settings: object) -> None:
    default = operator.attrgetter(leaf.path)(settings)
    shown = "null" if default is None else leaf.kind.show(default)
    assert leaf.kind.parse(shown) == default


@pytest.mark.parametrize("key", [*leaves(SERVER), *leaves(ADDRESS), *LISTS, *PERMISSION_KEYS, "group"])
def test_every_key_is_documented(key: str) -> None:
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    assert f"`{key}`" in text or f"`{key}: " in text


@pytest.mark.parametrize(
    ("key", "leaf", "settings"),
    [(key, leaf, ServerConfig()) for key, leaf in leaves(SERVER).items()]
    + [(key, leaf, AddressSettings()) for key, leaf in leaves(ADDRESS).items()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_page_says_the_default(key: str, leaf: Leaf, settings: object) -> None:
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    row = re.search(rf"^\| `{re.escape(key)}` \| `?(.+?)`? \|", text, re.MULTILINE)
    assert row is not None
    if row[1] not in ("none", "empty", "as `queue-prefetch"):
        assert leaf.kind.parse(row[1]) == operator.attrgetter(leaf.path)(settings)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "decisions")],
    ids=lambda page: page.name,
)
def test_pages_name_settings_by_their_keys(page: Path) -> None:
    """The model groups some of them otherwise; its paths stand in no configuration file."""
    keys = {*leaves(SERVER), *leaves(ADDRESS), "redelivery.collision-avoidance-factor"}
    groups = {path.split(".")[0] for path in attribute_paths(AddressSettings())} | {key.split(".")[0] for key in keys}
    named = re.findall(r"`([a-z-]+(?:\.[a-z-]+)+)(?::[^`]*)?`", page.read_text())
    known = keys | {key.rpartition(".")[0] for key in keys}
    assert {
        name
        for name in named
        if name.split(".")[0] in groups and not name.endswith((".md", ".json", ".py")) and name not in known
    } == set()


def test_a_leaf_is_found_by_its_dotted_key() -> None:
    assert leaf_at(SERVER, "store.retention.time").path == "store.retention.time_ms"
    assert leaf_at(ADDRESS, "redelivery.blame").path == "blame"


@pytest.mark.parametrize("key", ["", "store", "store.retention", "data.x", "nothing"])
def test_what_is_no_leaf_is_refused(key: str) -> None:
    with pytest.raises(UnknownKey, match="accepted are server-name"):
        leaf_at(SERVER, key)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("nak", "nack"),
        ("dead_letter_address", "dead-letter-address"),
        ("deadLetterAddress", "dead-letter-address"),
        ("redelivery.maximumRedeliveries", "redelivery.maximum-redeliveries"),
    ],
)
def test_the_nearest_key_is_named(key: str, nearest: str) -> None:
    with pytest.raises(UnknownKey, match=f"did you mean '{nearest}'"):
        leaf_at(ADDRESS, key)
