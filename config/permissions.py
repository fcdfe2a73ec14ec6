"""Permissions on destinations: entries of groups per pattern, answered for one name and one set of groups.

Without any entry everybody may do everything.  With entries, anything that no entry grants is refused, as in ActiveMQ
and Artemis.  Of the entries that match a destination and mention an action, the most specific one decides; an entry
that ``unites`` (all of an activemq.xml) adds its groups to those of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from config.matching import CACHED_NAMES_MAX, QUEUE, TOPIC, Pattern, precedence

Action = Literal[
    "read", "write", "create", "delete", "browse", "subscribe", "subscribe-durable", "unsubscribe", "export"
]

# The group of every user, including clients that did not log in.
EVERYBODY: Final = "*"

# An action without grants follows another one: read includes browse and subscribe, as in ActiveMQ.
# HornetQ and Artemis have separate permissions (createNonDurableQueue, createDurableQueue, deleteDurableQueue).
FOLLOWS: Final[Mapping[Action, Action]] = {
    "browse": "read",
    "subscribe": "read",
    "subscribe-durable": "read",
    "unsubscribe": "read",
}

# With any one of these a user may see that a destination exists, and its numbers.
SEEING: Final[tuple[Action, ...]] = ("browse", "read", "delete")
SEEING_WORDS: Final = "browse, read or admin"

# Only an entry whose own pattern begins so grants ``write`` to such topics: clients that may send anywhere
# (``match: ">"``) shall not forge what the broker reports.
ADVISORIES: Final = ("ActiveMQ", "Advisory")

_ANY_NAME: Final = "\0"  # not a valid name: only an entry for all destinations matches it


@dataclass(frozen=True, slots=True)
class Permission:
    """The grants of one entry.

    kinds: QUEUE, TOPIC or both, as in config.matching.
    grants: action -> groups; a missing action is left to less specific entries.
    """

    pattern: Pattern
    kinds: int
    grants: Mapping[Action, frozenset[str]]
    unites: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)


class PermissionMap:
    """Checks permissions; entries are given in the order of the file.

    groups: of users by their logins, for actions on behalf of a user who is not connected.
    """

    __slots__ = ("_cache", "_entries", "_groups")

    def __init__(
        self, entries: Iterable[Permission], groups: Mapping[str, frozenset[str]] = MappingProxyType({})
    ) -> None:
        self._groups = groups
        # Most specific first; of two equally specific entries the later one first, as for address settings.
        ordered = sorted(entries, key=lambda entry: precedence(entry.pattern, entry.kinds))
        self._entries = tuple(reversed(ordered))
        self._cache: dict[tuple[Action, int, str], frozenset[str]] = {}

    @property
    def is_open(self) -> bool:
        """Say whether everybody may do everything."""
        return not self._entries

    def allows(self, action: Action, kind: int, name: str, groups: frozenset[str]) -> bool:
        """Say whether a member of ``groups`` may do this to the destination.  kind: QUEUE or TOPIC."""
        if not self._entries:
            return True
        allowed = self.groups_for(action, kind, name)
        return EVERYBODY in allowed or not allowed.isdisjoint(groups)

    def may_read_topic(self, user: str, topic: str) -> bool:
        """Say whether a user may read a topic, connected or not."""
        return self.allows("read", TOPIC, topic, self._groups.get(user, frozenset()))

    def allows_everywhere(self, action: Action, groups: frozenset[str]) -> bool:
        """Say whether a member of ``groups`` may do this to every destination, whatever its name.

        An entry for all of them must grant it, and no more specific entry may restrict it to others.
        """
        if not all(self.allows(action, kind, _ANY_NAME, groups) for kind in (QUEUE, TOPIC)):
            return False
        seen: set[tuple[Pattern, int]] = set()
        for entry in self._entries:
            granted = entry.grants.get(action, entry.grants.get(FOLLOWS.get(action, action)))
            if granted is None or entry.unites or (entry.pattern, entry.kinds) in seen:
                continue  # it says nothing, restricts nothing, or a later one of the same pattern decides
            seen.add((entry.pattern, entry.kinds))
            if EVERYBODY not in granted and granted.isdisjoint(groups):
                return False
        return True

    def groups_for(self, action: Action, kind: int, name: str) -> frozenset[str]:
        """Return the groups that may do this; empty for none."""
        key = (action, kind, name)
        groups = self._cache.get(key)
        if groups is None:
            groups = self._find(action, kind, name)
            if len(self._cache) >= CACHED_NAMES_MAX:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = groups
        return groups

    def _find(self, action: Action, kind: int, name: str) -> frozenset[str]:
        elements = tuple(name.split("."))
        found: frozenset[str] = frozenset()
        is_report = action == "write" and kind == TOPIC and elements[:2] == ADVISORIES
        for entry in self._entries:
            if not entry.kinds & kind or not entry.pattern.matches(elements):
                continue
            if is_report and entry.pattern.elements[:2] != ADVISORIES:
                continue
            groups = entry.grants.get(action)
            if groups is None and action in FOLLOWS:
                groups = entry.grants.get(FOLLOWS[action])
            if groups is None:
                continue
            found |= groups
            if not entry.unites:
                break
        return found
