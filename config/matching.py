"""Which settings apply to a destination: wildcard match, order of precedence, field-wise merge.

Patterns consist of elements separated by ``.``.  ``*`` matches exactly one element.  ``>`` as the last element matches
any number of further ones, including none (``orders.>`` matches ``orders``), as in ActiveMQ.  ``#`` is HornetQ's form
of ``>``.

All matching entries are merged field by field, also within ``redelivery`` and ``prefetch``: for each field the most
specific entry that sets it wins.  More specific is, in this order: an exact name; fewer wildcards from the left (the
first different element decides: a literal before ``*`` before ``>``); the longer literal prefix; an entry only for
queues or only for topics; the later entry in the file.  Of a group of entries (ActiveMQ's policyEntries) only the most
specific one takes part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from config.policies import DEFAULT_ADDRESS_SETTINGS, AddressSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)

# Kinds of destination as bits: an entry may apply to both.  The numbers are those of engine.values.destination, which
# ``config`` must not import (a test compares the two).
QUEUE: Final = 1
TOPIC: Final = 2
BOTH: Final = QUEUE | TOPIC

ONE: Final = "*"
REST: Final = ">"

CACHED_NAMES_MAX: Final = 10_000

# A rollback waits only if a delay was configured: setting one of these counts as that.
DELAYS_ROLLBACK: Final = "redelivery.delays_rollback"
REDELIVERY_DELAYS: Final = frozenset({"redelivery.initial_redelivery_delay_ms", "redelivery.redelivery_delay_ms"})

# One prefetch of queues applies to all messages, as in ActiveMQ, unless a file sets both.
QUEUE_PREFETCH: Final = "prefetch.queue_prefetch"
NON_PERSISTENT_PREFETCH: Final = "prefetch.non_persistent_queue_prefetch"

_LITERAL_RANK: Final = 0
_ONE_RANK: Final = 1
_REST_RANK: Final = 2
_RANKS: Final = {ONE: _ONE_RANK, REST: _REST_RANK}


class InvalidPattern(ValueError):
    """A pattern that cannot mean what its author intended."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """An address pattern, parsed; only the last of ``elements`` may be ``>``."""

    text: str
    elements: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Raises: InvalidPattern."""
        elements = tuple(REST if element == "#" else element for element in text.split("."))
        for position, element in enumerate(elements):
            if element == "":
                raise InvalidPattern("has an empty element; elements are separated by one '.'")
            if element == REST and position != len(elements) - 1:
                raise InvalidPattern("has '>' or '#' before its end; it matches the rest, so it must come last")
            if len(element) > 1 and not {"*", ">", "#"}.isdisjoint(element):
                raise InvalidPattern(
                    f"has a wildcard within the element {element!r}; a wildcard is an element of its own"
                )
        return cls(text, elements)

    @property
    def is_exact(self) -> bool:
        return ONE not in self.elements and self.elements[-1] != REST

    def matches(self, elements: tuple[str, ...]) -> bool:
        """Say whether it matches the name with these ``elements``."""
        own = self.elements
        if own[-1] == REST:
            own = own[:-1]
            if len(elements) < len(own):
                return False
        elif len(elements) != len(own):
            return False
        return all(mine in (ONE, other) for mine, other in zip(own, elements, strict=False))

    def covers(self, narrow: Pattern) -> bool:
        """Say whether it matches every name that ``narrow`` matches."""
        mine, other = self.elements, narrow.elements
        if mine[-1] == REST:
            mine = mine[:-1]
            if len([element for element in other if element != REST]) < len(mine):
                return False
        elif len(mine) != len(other) or other[-1] == REST:
            return False
        return all(
            element == theirs or (element == ONE and theirs != REST)
            for element, theirs in zip(mine, other, strict=False)
        )

    def specificity(self) -> tuple[int, ...]:
        """Return a key by which the more specific of two patterns that match one name sorts later.

        Negated ranks, because later is better; the final literal rank makes ``a.*`` better than ``a.*.>``.  The literal
        prefix need not be compared: of two patterns that match one name, the longer prefix has a literal where the
        other has its first wildcard.
        """
        return (*(-_RANKS.get(element, _LITERAL_RANK) for element in self.elements), _LITERAL_RANK)


def precedence(pattern: Pattern, kinds: int) -> tuple[bool, tuple[int, ...], bool]:
    """Return a key by which the more specific of two entries for one destination sorts later."""
    return pattern.is_exact, pattern.specificity(), kinds != BOTH


@dataclass(frozen=True, slots=True)
class AddressEntry:
    """The settings of one entry of ``addresses``: dotted attribute path of AddressSettings -> value.

    sources: the same paths -> origin of the value (``file:line``).
    group: of the matching entries of one group, only the most specific one applies; with "" every entry applies.
    ActiveMQ's policyEntries are such a group.
    place: where the entry begins (``file:line``).
    """

    pattern: Pattern
    kinds: int
    values: Mapping[str, object]
    sources: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective value and its origin."""

    value: object
    source: str


def with_values(settings: Settings, values: Mapping[str, object]) -> Settings:
    """Return ``settings`` with ``values`` set; keys are dotted attribute paths into nested dataclasses."""
    changes: dict[str, Any] = {}
    nested: dict[str, dict[str, object]] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        if rest:
            nested.setdefault(name, {})[rest] = value
        else:
            changes[name] = value
    for name, inner in nested.items():
        changes[name] = with_values(getattr(settings, name), inner)
    return replace(settings, **changes)


class AddressMatcher:
    """Finds the settings of a destination; entries are given in the order of the file."""

    __slots__ = ("_cache", "_cached_names_max", "_entries")

    def __init__(self, entries: Iterable[AddressEntry], cached_names_max: int = CACHED_NAMES_MAX) -> None:
        # sorted() is stable: of two equally specific entries the later one wins.
        self._entries = sorted(entries, key=lambda entry: precedence(entry.pattern, entry.kinds))
        self._cached_names_max = cached_names_max
        self._cache: dict[tuple[int, str], AddressSettings] = {}

    def settings_for(self, kind: int, name: str) -> AddressSettings:
        """Return the effective settings of a destination.  kind: QUEUE or TOPIC."""
        key = (kind, name)
        settings = self._cache.get(key)
        if settings is None:
            values: dict[str, object] = {}
            for entry in self.matching(kind, name):
                values.update(entry.values)
            if DELAYS_ROLLBACK not in values and not REDELIVERY_DELAYS.isdisjoint(values):
                values[DELAYS_ROLLBACK] = True
            if NON_PERSISTENT_PREFETCH not in values and QUEUE_PREFETCH in values:
                values[NON_PERSISTENT_PREFETCH] = values[QUEUE_PREFETCH]
            settings = with_values(DEFAULT_ADDRESS_SETTINGS, values) if values else DEFAULT_ADDRESS_SETTINGS
            if len(self._cache) >= self._cached_names_max:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = settings
        return settings

    def explain(self, kind: int, name: str) -> dict[str, Setting]:
        """Return each value that some entry sets for this destination, with its origin.

        Missing paths have the built-in value.
        """
        explained: dict[str, Setting] = {}
        for entry in self.matching(kind, name):
            for path, value in entry.values.items():
                explained[path] = Setting(value, entry.sources.get(path, entry.pattern.text))
        return explained

    def matching(self, kind: int, name: str) -> list[AddressEntry]:
        """Return the entries that apply to a destination, the most specific last."""
        found = self._all_matching(kind, name)
        last_of_group = {entry.group: entry for entry in found if entry.group}
        return [entry for entry in found if not entry.group or last_of_group[entry.group] is entry]

    def left_out(self, kind: int, name: str) -> list[AddressEntry]:
        """Return the entries that match a destination but do not apply, because another of their group does."""
        applied = self.matching(kind, name)
        return [entry for entry in self._all_matching(kind, name) if not any(entry is other for other in applied)]

    def _all_matching(self, kind: int, name: str) -> list[AddressEntry]:
        elements = tuple(name.split("."))
        return [entry for entry in self._entries if entry.kinds & kind and entry.pattern.matches(elements)]
