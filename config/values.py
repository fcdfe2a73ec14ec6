"""Kinds of values: numbers, octets, durations, choices, texts, moments.

One class per kind of value.  ``allowed`` completes the sentence "allowed is ...".  ``parse`` raises ValueError, with a
text only if it can say more than ``allowed``.  ``show`` returns a text that ``parse`` accepts.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import ClassVar, Final

_ORIGIN: Final = re.compile(r"https?://[^/,\s@]+")
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)

BYTE_UNITS: Final[Mapping[str, int]] = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}
TIME_UNITS: Final[Mapping[str, int]] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_SHOWN_BYTE_UNITS: Final = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))
_SHOWN_TIME_UNITS: Final = (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))

# More digits are refused at once; the range is checked afterwards.
_DIGITS_MAX: Final = 20

_MOMENT_DIGITS_MAX: Final = 15
MOMENT_ALLOWED: Final = "milliseconds since 1970 or a time such as 2026-01-31T12:00:00Z"


JsonSchema = dict[str, object]


class Kind(ABC):
    """One kind of value."""

    __slots__ = ()

    takes_null: ClassVar[bool] = False  # parse() takes the text "null"

    @property
    @abstractmethod
    def allowed(self) -> str:
        """Say what is accepted, to follow "allowed is"."""

    @abstractmethod
    def parse(self, text: str) -> object:
        """Return the value.  Raises: ValueError; its text, if any, says what is wrong."""

    def show(self, value: object) -> str:
        return str(value)

    def json_schema(self) -> JsonSchema:
        """Describe accepted values to an editor; the schema may accept more than ``parse``, never less."""
        return {"type": "string"}


class Integer(Kind):
    """A whole number from ``minimum`` to ``maximum``; ``unlimited`` adds -1."""

    __slots__ = ("_maximum", "_minimum", "_unlimited")

    def __init__(self, minimum: int, maximum: int, unlimited: bool = False) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._unlimited = unlimited

    @property
    def allowed(self) -> str:
        unlimited = ", or -1 for no limit" if self._unlimited else ""
        return f"an integer from {self._minimum} to {self._maximum}{unlimited}"

    def parse(self, text: str) -> int:
        if _INTEGER.fullmatch(text) is None or len(text) > _DIGITS_MAX:
            raise ValueError
        value = int(text)
        if not (self._minimum <= value <= self._maximum or (self._unlimited and value == -1)):
            raise ValueError
        return value

    def json_schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": -1 if self._unlimited else self._minimum, "maximum": self._maximum}


class Number(Kind):
    """A finite number from ``minimum`` to ``maximum``."""

    __slots__ = ("_maximum", "_minimum")

    def __init__(self, minimum: float, maximum: float) -> None:
        self._minimum = minimum
        self._maximum = maximum

    @property
    def allowed(self) -> str:
        return f"a number from {self._minimum:g} to {self._maximum:g}"

    def parse(self, text: str) -> float:
        value = float(text)
        if not math.isfinite(value) or not self._minimum <= value <= self._maximum:
            raise ValueError
        return value

    def json_schema(self) -> JsonSchema:
        return {"type": "number", "minimum": self._minimum, "maximum": self._maximum}


class Factor(Kind):
    """A share, stored in percent."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "a number from 0 to 1"

    def parse(self, text: str) -> float:
        return round(Number(0, 1).parse(text) * 100, 6)

    def json_schema(self) -> JsonSchema:
        return Number(0, 1).json_schema()


class Quantity(Kind):
    """A count of some unit, written as a plain integer or with a unit behind it.

    multiple: of which it must be a multiple.
    """

    __slots__ = ("_maximum", "_minimum", "_multiple", "_unlimited")

    noun: str
    units: Mapping[str, int]
    shown_units: tuple[tuple[str, int], ...]

    def __init__(self, minimum: int, maximum: int, unlimited: bool = False, multiple: int = 1) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._unlimited = unlimited
        self._multiple = multiple

    @property
    def allowed(self) -> str:
        multiple = f", a multiple of {self._multiple}" if self._multiple > 1 else ""
        unlimited = ", or -1 for no limit" if self._unlimited else ""
        return f"{self.noun}, from {self.show(self._minimum)} to {self.show(self._maximum)}{multiple}{unlimited}"

    def parse(self, text: str) -> int:
        if self._unlimited and text == "-1":
            return -1
        match = _QUANTITY.fullmatch(text)
        if match is None or len(match[1]) > _DIGITS_MAX:
            raise ValueError
        unit = match[2].lower()
        if unit and unit not in self.units:
            raise ValueError
        value = Decimal(match[1]) * (self.units[unit] if unit else 1)
        if not self._minimum <= value <= self._maximum or value % self._multiple:
            raise ValueError
        return int(value)

    def show(self, value: object) -> str:
        assert isinstance(value, int), f"a quantity is {type(value)}"
        for unit, size in self.shown_units:
            if value >= size and value % size == 0:
                return f"{value // size}{unit}"
        return str(value)

    def json_schema(self) -> JsonSchema:
        units = "|".join(sorted(self.units))
        return {
            "anyOf": [
                {"type": "integer", "minimum": -1 if self._unlimited else self._minimum, "maximum": self._maximum},
                # JSON schema knows no flag for case.
                {"type": "string", "pattern": f"^[0-9]+(\\.[0-9]+)?\\s*({_any_case(units)})?$"},
            ]
        }


def _any_case(text: str) -> str:
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in text)


class Bytes(Quantity):
    noun = "a number of bytes, plain or as in 64KiB, 10MiB, 1GiB"
    units = BYTE_UNITS
    shown_units = _SHOWN_BYTE_UNITS


class Duration(Quantity):
    """In milliseconds."""

    noun = "a time in milliseconds, or with a unit as in 500ms, 30s, 5m, 72h, 7d"
    units = TIME_UNITS
    shown_units = _SHOWN_TIME_UNITS


class Boolean(Kind):
    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "true or false"

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError
        return text.lower() == "true"

    def show(self, value: object) -> str:
        return "true" if value else "false"

    def json_schema(self) -> JsonSchema:
        return {"type": "boolean"}


class Choice(Kind):
    """One of a few words, case as given."""

    __slots__ = ("_options",)

    def __init__(self, *options: str) -> None:
        self._options = options

    @property
    def allowed(self) -> str:
        return f"{', '.join(self._options[:-1])} or {self._options[-1]}"

    def parse(self, text: str) -> str:
        if text not in self._options:
            raise ValueError
        return text

    def json_schema(self) -> JsonSchema:
        return {"enum": list(self._options)}


class Text(Kind):
    """One line of text without control characters, at most ``maximum_count`` characters."""

    __slots__ = ("_maximum_count", "_noun")

    def __init__(self, noun: str, maximum_count: int = 1024) -> None:
        self._noun = noun
        self._maximum_count = maximum_count

    @property
    def allowed(self) -> str:
        return f"{self._noun}, 1 to {self._maximum_count} printable characters"

    def parse(self, text: str) -> str:
        if not text or len(text) > self._maximum_count or not text.isprintable():
            raise ValueError
        return text

    def json_schema(self) -> JsonSchema:
        return {"type": ["string", "number"], "maxLength": self._maximum_count}


class Origins(Kind):
    """Origins of web pages (RFC 6454 section 6.2), separated by commas."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return 'origins as in https://shop.example, separated by commas, or "" for none'

    def parse(self, text: str) -> tuple[str, ...]:
        origins = tuple(origin.strip().lower() for origin in text.split(",")) if text else ()
        if not all(map(_ORIGIN.fullmatch, origins)):
            raise ValueError
        return origins

    def show(self, value: object) -> str:
        assert isinstance(value, tuple), f"origins are {type(value)}"
        return ", ".join(value)


class Words(Kind):
    """Some of a few words, separated by commas."""

    __slots__ = ("_noun", "_options")

    def __init__(self, noun: str, *options: str) -> None:
        self._noun = noun
        self._options = options

    @property
    def allowed(self) -> str:
        return f"{self._noun}, separated by commas, of {', '.join(self._options)}"

    def parse(self, text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
        if not set(words) <= set(self._options):
            raise ValueError
        return words

    def show(self, value: object) -> str:
        assert isinstance(value, tuple), f"words are {type(value)}"
        return ", ".join(value)


class OptionalText(Text):
    """Such a text, or "" for none."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return f'{super().allowed}, or "" for none'

    def parse(self, text: str) -> str:
        return super().parse(text) if text else ""


class OptionalFile(OptionalText):
    """A file's path, or "" for none."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("a file", 4096)


def moment_ms(text: str) -> int:
    """Return a moment in milliseconds since 1970; moments are written in commands, headers and URIs.

    Raises: ValueError; ``MOMENT_ALLOWED`` says what is accepted.
    """
    if text.isascii() and text.isdigit():
        if len(text) > _MOMENT_DIGITS_MAX:
            raise ValueError(f"{text[:80]!r} is not a moment")
        return int(text)
    moment = datetime.fromisoformat(text)
    # A time without a zone is UTC, like every time that we print.
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
