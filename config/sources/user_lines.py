"""Edits the users of a YAML file line by line: everything else stays as it was written, comments included.

An edit is checked before it is returned: the new text must say what was asked, and the rest what it said before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import yaml

from config.errors import ConfigError, Problem
from config.sources import yaml as settings
from config.sources.document import Document

USERS: Final = "users"
TOKENS: Final = "access-tokens"
INDENT: Final = "  "
# Names that YAML reads as text without quotes.  Others are written as JSON strings, which YAML reads, too.
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]*")
_WORDS: Final = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}

Pair = tuple[yaml.ScalarNode, yaml.Node]


def user_lines(name: str, verifiers: Sequence[str], groups: Collection[str] = ()) -> list[str]:
    """Return the lines of one user, as below ``users``."""
    lines = [f"{INDENT}{_key(name)}:", f"{INDENT * 2}verifiers:", *(f"{INDENT * 3}- {one}" for one in verifiers)]
    return [*lines, f"{INDENT * 2}groups: [{', '.join(map(_key, sorted(groups)))}]"] if groups else lines


@dataclass(slots=True)
class Users:
    """What a text says of them: verifiers, groups and access tokens by name."""

    verifiers: dict[str, tuple[str, ...]]
    groups: dict[str, frozenset[str]]
    access_tokens: dict[str, tuple[str, ...]]


class UserFile:
    """The text of a configuration file, and its users.  Raises: ConfigError if it is no sound YAML configuration."""

    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._lines = text.splitlines(keepends=True)
        if self._lines and not self._lines[-1].endswith("\n"):
            self._lines[-1] += "\n"
        self._read = self._document(text)
        self._root = _pairs(yaml.compose(text, Loader=settings.LOADER))

    @property
    def names(self) -> list[str]:
        return list(self._read.users)

    def with_user(self, name: str, verifiers: Sequence[str], groups: Collection[str]) -> str:
        """Return the text with one user more."""
        read = self._read
        lines = user_lines(name, verifiers, groups)
        expected = Users({**read.users, name: tuple(verifiers)}, dict(read.groups), read.access_tokens)
        if groups:
            expected.groups[name] = frozenset(groups)
        users = self._users()
        if users is None:
            return self._spliced(len(self._lines), len(self._lines), [f"{USERS}:", *lines], expected)
        known = _pairs(users[1])
        if not known:
            return self._replaced(users, [f"{USERS}:", *lines], expected)
        indent = " " * known[0][0].start_mark.column
        at = _end_line(known[-1])
        return self._spliced(at, at, [indent + line.removeprefix(INDENT) for line in lines], expected)

    def with_verifiers(self, name: str, verifiers: Sequence[str]) -> str:
        """Return the text with other verifiers of a user that it has."""
        read = self._read
        expected = Users({**read.users, name: tuple(verifiers)}, read.groups, read.access_tokens)
        pair = self._pair_of(name, "verifiers")
        assert pair is not None, f"{name} has verifiers"
        return self._replaced(pair, _listed(pair, "verifiers", verifiers), expected)

    def access_tokens_of(self, name: str) -> tuple[str, ...]:
        return self._read.access_tokens.get(name, ())

    def with_access_tokens(self, name: str, texts: Sequence[str]) -> str:
        """Return the text with other access tokens of a user that it has."""
        read = self._read
        tokens = {**read.access_tokens, name: tuple(texts)}
        if not texts:
            del tokens[name]
        expected = Users(read.users, read.groups, tokens)
        pair = self._pair_of(name, TOKENS)
        if pair is not None:
            return self._replaced(pair, _listed(pair, TOKENS, texts) if texts else [], expected)
        verifiers = self._pair_of(name, "verifiers")
        assert verifiers is not None, f"{name} has verifiers"
        at = _end_line(verifiers)
        return self._spliced(at, at, _listed(verifiers, TOKENS, texts), expected)

    def without_user(self, name: str) -> str:
        """Return the text without a user that it has."""
        read = self._read
        expected = Users(dict(read.users), dict(read.groups), dict(read.access_tokens))
        del expected.verifiers[name]
        expected.groups.pop(name, None)
        expected.access_tokens.pop(name, None)
        return self._replaced(self._user(name), [], expected)

    def _users(self) -> Pair | None:
        return next((pair for pair in self._root if pair[0].value == USERS), None)

    def _user(self, name: str) -> Pair:
        users = self._users()
        assert users is not None, f"the file has the user {name}"
        return next(pair for pair in _pairs(users[1]) if pair[0].value == name)

    def _pair_of(self, name: str, key: str) -> Pair | None:
        return next((pair for pair in _pairs(self._user(name)[1]) if pair[0].value == key), None)

    def _replaced(self, pair: Pair, lines: list[str], expected: Users) -> str:
        return self._spliced(pair[0].start_mark.line, _end_line(pair), lines, expected)

    def _spliced(self, start: int, end: int, lines: list[str], expected: Users) -> str:
        """Return the text with ``lines`` in place of its lines from ``start`` to ``end``.  Raises: ConfigError."""
        text = "".join([*self._lines[:start], *(f"{line}\n" for line in lines), *self._lines[end:]])
        try:
            read = self._document(text)
            is_right = Users(read.users, read.groups, read.access_tokens) == expected and _others(text) == _others(
                "".join(self._lines)
            )
        except (ConfigError, yaml.YAMLError):
            is_right = False
        if not is_right:
            said = (
                "are not written line by line, so they cannot be edited so; 'penstock user hash' prints what to paste"
            )
            raise ConfigError([Problem(self._source, 0, USERS, said)])
        return text

    def _document(self, text: str) -> Document:
        document = settings.read(self._source, text.encode())
        if document.problems:
            raise ConfigError(document.problems)
        return document


def _listed(beside: Pair, key: str, texts: Sequence[str]) -> list[str]:
    indent = " " * beside[0].start_mark.column
    return [f"{indent}{key}:", *(f"{indent}{INDENT}- {text}" for text in texts)]


def _pairs(node: yaml.Node | None) -> list[Pair]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _end_line(pair: Pair) -> int:
    """Return the line behind the last one of a key and its value; comments behind belong to what follows."""
    key, value = pair
    if isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        return _end_line(last if isinstance(last, tuple) else (key, last))
    return int(value.end_mark.line) + 1


def _others(text: str) -> list[tuple[str, str]]:
    root = yaml.compose(text, Loader=settings.LOADER)
    return [(key.value, repr(value)) for key, value in _pairs(root) if key.value != USERS]


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name.lower() not in _WORDS else json.dumps(name, ensure_ascii=False)
