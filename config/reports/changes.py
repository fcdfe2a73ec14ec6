"""What differs between two configurations: what a running gateway can take over, and what needs a restart."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from config.matching import BOTH, QUEUE, TOPIC, Pattern
from config.model import ServerConfig
from config.schema import SERVER, leaves

_KINDS: Final = {QUEUE: "queue", TOPIC: "topic", BOTH: "both"}


@dataclass(frozen=True, slots=True)
class Changes:
    """Lines for people, each with the key of a setting in front.

    applied: users, groups and permissions, which hold at once.  restart: all others.
    """

    applied: list[str]
    restart: list[str]


def changes(old: ServerConfig, new: ServerConfig) -> Changes:
    """Return what differs, without the places of the settings in their files."""
    rights = [*_users(old, new), *_permissions(old, new)]
    others = [*_settings(old, new)]
    if old.checks_logins != new.checks_logins:  # listeners that ask for a login are made so
        return Changes([], [*rights, *others])
    return Changes(rights, others)


def with_rights_of(old: ServerConfig, new: ServerConfig) -> ServerConfig:
    """Return ``old`` with what ``changes`` calls applied."""
    if old.checks_logins != new.checks_logins:
        return old
    sources = {key: place for key, place in old.sources.items() if not key.startswith("users.")}
    sources.update({key: place for key, place in new.sources.items() if key.startswith("users.")})
    return replace(
        old,
        users=new.users,
        access_tokens=new.access_tokens,
        groups=new.groups,
        permissions=new.permissions,
        sources=sources,
    )


def _users(old: ServerConfig, new: ServerConfig) -> Iterable[str]:
    yield from _members("users", old.users, new.users, "other verifiers")
    for name in new.users:
        was, now = (", ".join(sorted(config.groups.get(name, ()))) or "none" for config in (old, new))
        if was != now:
            yield f"users.{name}: groups {now}, before {was}"
        if old.access_tokens.get(name, ()) != new.access_tokens.get(name, ()):
            names = ", ".join(text.partition("$")[0] for text in new.access_tokens.get(name, ()))
            yield f"users.{name}: other access tokens, now {names or 'none'}"


def _permissions(old: ServerConfig, new: ServerConfig) -> Iterable[str]:
    was, now = (
        _by_name([(one.pattern, one.kinds, (one.grants, one.unites)) for one in config.permissions])
        for config in (old, new)
    )
    yield from _members("permissions", was, now, "other grants")


def _settings(old: ServerConfig, new: ServerConfig) -> Iterable[str]:
    for key, leaf in leaves(SERVER).items():
        was, now = (operator.attrgetter(leaf.path)(config) for config in (old, new))
        if was != now:
            yield f"{key}: {leaf.kind.show(now)}, before {leaf.kind.show(was)}"
    for key in ("virtual-topics", "destinations"):
        was, now = (getattr(config, key.replace("-", "_")) for config in (old, new))
        if was != now:
            yield f"{key}: another list"
    before, after = (
        _by_name([(one.pattern, one.kinds, (one.values, one.group)) for one in config.addresses])
        for config in (old, new)
    )
    yield from _members("addresses", before, after, "other settings")


def _by_name(entries: Iterable[tuple[Pattern, int, object]]) -> dict[str, object]:
    """Return what the entries say, by pattern and kind.  Several of one name count in their order."""
    found: dict[str, list[object]] = {}
    for pattern, kinds, said in entries:
        name = pattern.text if kinds == BOTH else f"{pattern.text} ({_KINDS[kinds]})"
        found.setdefault(name, []).append(said)
    return dict(found)


def _members(key: str, old: Mapping[str, object], new: Mapping[str, object], changed: str) -> Iterable[str]:
    for name in [*old, *(one for one in new if one not in old)]:
        if name not in new:
            yield f"{key}.{name}: removed"
        elif name not in old:
            yield f"{key}.{name}: added"
        elif old[name] != new[name]:
            yield f"{key}.{name}: {changed}"
