"""Converts other brokers' files to an equivalent penstock.yaml, with the source line of each value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from config.address_schema import ADDRESS
from config.errors import ConfigError
from config.matching import BOTH, QUEUE, AddressEntry
from config.names import DestinationName, Verifier
from config.permissions import Action, Permission
from config.schema import GRANTS, SERVER, Leaf, Tree, leaves
from config.sources.document import Document

# A value with its comment, or a mapping of them.
Node = tuple[str, str] | dict[str, "Node"]

_KIND_NAMES: Final = {QUEUE: "queue", BOTH: "both"}
_PLAIN: Final = re.compile(r"-?[A-Za-z0-9][A-Za-z0-9_.+-]*")
_KEY_OF_GRANT: Final[Mapping[Action, str]] = {actions[0]: key for key, actions in GRANTS.items() if len(actions) == 1}
_WIDTH: Final = 60


def migrate(documents: Sequence[Document], hash_password: Callable[[str], Sequence[str]]) -> str:
    """Return penstock.yaml for the files together; later ones override earlier ones.

    hash_password: makes verifiers of a password in plain text.  Raises: ConfigError for files that are not accepted.
    """
    problems = [problem for document in documents for problem in document.problems]
    if problems:
        raise ConfigError(problems)
    lines = [f"# From {', '.join(document.source for document in documents)}, by penstock migrate."]
    notes = [note for document in documents for note in document.notes]
    if notes:
        lines += ["# Without an effect here, or with another one:", *(f"#   {note}" for note in notes)]
    lines += _server(documents)
    lines += _users(documents, hash_password)
    permissions = [entry for document in documents for entry in document.permissions]
    if permissions:
        lines += ["", "permissions:"]
        for permission in permissions:
            lines += _item(_permission(permission))
    virtual = next((each.virtual_topics for each in reversed(documents) if each.virtual_topics is not None), None)
    if virtual is not None:
        lines += ["", "virtual-topics:" if virtual else "virtual-topics: []"]
        for topic in virtual:
            selective = "true" if topic.is_selective else "false"
            lines += _item(
                {
                    "match": (quoted(topic.pattern), ""),
                    "prefix": (quoted(topic.prefix), ""),
                    "selective": (selective, ""),
                }
            )
    destinations = dict.fromkeys(found for document in documents for found in document.destinations)
    if destinations:
        lines += ["", "destinations:"]
        lines += [f"  - {quoted(DestinationName().show((found.kind, found.name)))}" for found in destinations]
    addresses = [entry for document in documents for entry in document.addresses]
    if addresses:
        groups = {
            group: f"group-{at}" for at, group in enumerate(dict.fromkeys(e.group for e in addresses if e.group), 1)
        }
        lines += ["", "addresses:"]
        for entry in addresses:
            lines += _item(_address(entry, groups))
    return "\n".join(lines) + "\n"


def _server(documents: Sequence[Document]) -> list[str]:
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for document in documents:
        values.update(document.values)
        sources.update(document.sources)
    node = _nested(SERVER, values, {leaf.path: sources.get(key, "") for key, leaf in leaves(SERVER).items()})
    return ["", *_mapping(node, "")] if node else []


def _users(documents: Sequence[Document], hash_password: Callable[[str], Sequence[str]]) -> list[str]:
    verifiers: dict[str, Sequence[str]] = {}
    groups: dict[str, frozenset[str]] = {}
    tokens: dict[str, tuple[str, ...]] = {}
    for document in documents:
        verifiers.update(document.users)
        verifiers.update((login, hash_password(password)) for login, password in document.passwords.items())
        groups.update(document.groups)
        tokens.update(document.access_tokens)
    lines = ["", "users:"] if verifiers else []
    for login, texts in verifiers.items():
        lines += [f"  {quoted(login)}:", "    verifiers:"]
        lines += [f"      - {Verifier().show(text)}" for text in texts]
        if tokens.get(login):
            lines += ["    access-tokens:", *(f"      - {text}" for text in tokens[login])]
        if groups.get(login):
            lines.append(f"    groups: {_list_of(groups[login])}")
    return lines


def _permission(entry: Permission) -> dict[str, Node]:
    node: dict[str, Node] = {"match": (quoted(entry.pattern.text), "")}
    if entry.kinds != BOTH:
        node["kind"] = (_KIND_NAMES.get(entry.kinds, "topic"), "")
    if entry.unites:
        node["unites"] = ("true", "")
    grants = dict(entry.grants)
    if "create" in grants and grants.get("create") == grants.get("delete"):
        node["admin"] = (_list_of(grants.pop("create")), entry.sources.get("create", ""))
        del grants["delete"]
    for action, groups in grants.items():
        node[_KEY_OF_GRANT[action]] = (_list_of(groups), entry.sources.get(action, ""))
    return node


def _address(entry: AddressEntry, groups: Mapping[str, str]) -> dict[str, Node]:
    node: dict[str, Node] = {"match": (quoted(entry.pattern.text), entry.place)}
    if entry.kinds != BOTH:
        node["kind"] = (_KIND_NAMES.get(entry.kinds, "topic"), "")
    if entry.group:
        node["group"] = (groups[entry.group], "")
    node.update(_nested(ADDRESS, entry.values, entry.sources))
    return node


def _nested(tree: Tree, values: Mapping[str, object], sources: Mapping[str, str]) -> dict[str, Node]:
    """Return the values in the shape and the order of ``tree``."""
    node: dict[str, Node] = {}
    for key, at in tree.items():
        if isinstance(at, Leaf):
            if at.path in values and not at.is_alias:
                value = values[at.path]
                shown = at.kind.show(value)
                # Null and booleans are written as such in YAML; texts that look like them are quoted.
                is_word = value is None or isinstance(value, bool)
                node[key] = (shown if is_word else quoted(shown), sources.get(at.path, ""))
        elif inner := _nested(at, values, sources):
            node[key] = inner
    return node


def _mapping(node: Mapping[str, Node], indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in node.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *_mapping(value, indent + "  ")]
        else:
            text = f"{indent}{key}: {value[0]}"
            lines.append(f"{text:<{_WIDTH}} # {value[1]}" if value[1] else text)
    return lines


def _item(node: Mapping[str, Node]) -> list[str]:
    first, *others = _mapping(node, "    ")
    return [f"  - {first.removeprefix('    ')}", *others]


def _list_of(names: frozenset[str]) -> str:
    return f"[{', '.join(quoted(name) for name in sorted(names))}]"


def quoted(text: str) -> str:
    """Return ``text`` as a scalar that YAML reads as exactly this text; a JSON string is one."""
    is_word = text.lower() in ("null", "true", "false", "yes", "no", "on", "off", "~")
    return text if _PLAIN.fullmatch(text) is not None and not is_word else json.dumps(text, ensure_ascii=False)
