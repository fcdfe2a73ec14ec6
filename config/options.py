"""One option of another broker's dialect: its meaning here, or why it has no effect.

Every dialect (ActiveMQ's XML and URIs, HornetQ's and Artemis' XML) is a set of tables of these.  Readers look options
up in them, ``docs/reference/compatibility.md`` is written from them, and a test walks through all of them.

honoured: sets ``values``.  listed: the file is accepted, the option has no effect, and its text is shown with its
line.  refused: the file is not accepted, because running without the option would not be safe.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from config.values import BYTE_UNITS, Kind, Quantity

Status = Literal["honoured", "listed", "refused"]
Values = Mapping[str, object]
Table = Mapping[str, "Option"]

NO_VALUES: Final[Values] = MappingProxyType({})
_NAMED_MOST: Final = 60  # known options in an error; a URI has twice as many


class OptionError(ValueError):
    """An option that cannot be accepted; the text begins with its name."""


class BinaryBytes(Quantity):
    """Octets as Java's brokers write them: ``10 mb`` is 10 times 1024 times 1024."""

    noun = "a number of bytes, plain or as in 64kb, 10 mb, 1gb (powers of 1024)"
    units = MappingProxyType(
        {
            **{unit: size for unit, size in BYTE_UNITS.items() if unit.endswith("ib") or unit == "b"},
            **{unit + suffix: 1024**at for at, unit in enumerate("kmgt", 1) for suffix in ("", "b")},
        }
    )
    shown_units = (("tb", 1024**4), ("gb", 1024**3), ("mb", 1024**2), ("kb", 1024))


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    text: of an honoured one: what it sets; otherwise: why it has no effect.
    kind, example, to_values: of an honoured one: accepted values, an accepted text, and the settings of a value.
    """

    name: str
    status: Status
    text: str
    kind: Kind | None = None
    example: str = ""
    to_values: Callable[[Any], Values] | None = None

    def values(self, text: str) -> Values:
        """Return the settings of ``text``: dotted attribute path -> value.  Raises: OptionError."""
        if self.status == "refused":
            raise OptionError(f"{self.name}: {self.text}")
        if self.kind is None or self.to_values is None:
            return NO_VALUES
        try:
            return self.to_values(self.kind.parse(text.strip()))
        except ValueError as error:
            said = str(error)
            why = f" {said}" if said.startswith(("has ", "lacks ", "looks ")) else ""
            raise OptionError(f"{self.name}: {text!r}{why}, allowed is {self.kind.allowed}") from None


def honoured(name: str, kind: Kind, example: str, *paths: str) -> Option:
    """An option that sets each of ``paths`` to its value."""
    return Option(
        name,
        "honoured",
        ", ".join(f"`{path}`" for path in paths),
        kind,
        example,
        lambda value: dict.fromkeys(paths, value),
    )


def computed(name: str, kind: Kind, example: str, text: str, to_values: Callable[[Any], Values]) -> Option:
    """An option whose value is converted."""
    return Option(name, "honoured", text, kind, example, to_values)


def listed(name: str, text: str) -> Option:
    return Option(name, "listed", text)


def refused(name: str, text: str) -> Option:
    return Option(name, "refused", text)


def all_listed(text: str, *names: str) -> tuple[Option, ...]:
    """Several options that have no effect for the same reason.  names: one or more in each text."""
    return tuple(listed(name, text) for some in names for name in some.split())


def table(*options: Option) -> Table:
    found = {option.name: option for option in options}
    assert len(found) == len(options), "an option occurs twice in a table"
    return MappingProxyType(found)


def unknown_option(name: str, accepted: Iterable[str]) -> OptionError:
    """Return the error for an unknown option, with the nearest one and what is known."""
    names = list(accepted)
    by_folded = {other.replace("-", "").lower(): other for other in names}
    near = difflib.get_close_matches(name.replace("-", "").lower(), by_folded, n=1, cutoff=0.6)
    hint = f" (did you mean {by_folded[near[0]]!r}?)" if near else ""
    known = (
        ", ".join(names)
        if len(names) <= _NAMED_MOST
        else f"{len(names)}, which 'penstock check-config --options' lists"
    )
    return OptionError(f"{name}: unknown option{hint}; known are {known}")
