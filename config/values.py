"""From text to value: numbers, octets, durations, choices, names, listener URIs.

One class per kind of value.  ``allowed`` completes the sentence "allowed is ..."; ``parse`` raises ValueError, with a
text of its own only where it can say more than ``allowed``; ``show`` gives a text that ``parse`` takes.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from typing import ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from config.matching import QUEUE, TOPIC, InvalidPattern, Pattern

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

# Digits of a number that is read at all; the range is checked afterwards.
_DIGITS_MAX: Final = 20


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
        """Describe what is accepted to an editor; it may take more than ``parse``, never less."""
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
    """A share, kept in percent."""

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

    multiple: what it must be a multiple of.
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


class OptionalFile(Text):
    """A file's path, or "" for none."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("a file", 4096)

    @property
    def allowed(self) -> str:
        return f'{super().allowed}, or "" for none'

    def parse(self, text: str) -> str:
        return super().parse(text) if text else ""


class TimeZone(Kind):
    """The name of a time zone, or ``local`` for that of the machine."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "local, or a time zone as in Europe/Berlin that this machine knows"

    def parse(self, text: str) -> str:
        if text != "local":
            try:
                ZoneInfo(text)
            except (ZoneInfoNotFoundError, OSError):
                raise ValueError from None
        return text

    def json_schema(self) -> JsonSchema:
        return {"type": "string"}


class UserName(Kind):
    """The name of a login.  No ``:``: HTTP Basic could not carry it."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "a user name without ':', 1 to 255 printable characters"

    def parse(self, text: str) -> str:
        if not text or len(text) > 255 or not text.isprintable() or ":" in text:
            raise ValueError
        return text


class QueueName(Kind):
    """A queue to move messages to, or null to drop them."""

    __slots__ = ()

    takes_null: ClassVar[bool] = True

    @property
    def allowed(self) -> str:
        return "the name of a queue as in ActiveMQ.DLQ (no wildcard, no '?'), or null to drop such messages"

    def parse(self, text: str) -> str | None:
        if text in ("null", "~"):
            return None
        name = text.removeprefix("queue://").removeprefix("/queue/")
        if not name or len(name.encode()) > 1024 or not name.isprintable() or "?" in name or "," in name:
            raise ValueError
        if not Pattern.parse(name).is_exact:
            raise ValueError
        return name

    def show(self, value: object) -> str:
        return "null" if value is None else str(value)

    def json_schema(self) -> JsonSchema:
        return {"type": ["string", "null"]}


class GroupName(Kind):
    """A group, which permissions are granted to; ``*`` is everybody."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "the name of a group, 1 to 255 printable characters; '*' is everybody in permissions"

    def parse(self, text: str) -> str:
        if not text or len(text) > 255 or not text.isprintable() or "," in text:
            raise ValueError
        return text


class QueuePrefix(Kind):
    """The prefix of a virtual topic's name in the names of its queues."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "elements that end with '.', one of them '*', as in 'Consumer.*.'"

    def parse(self, text: str) -> str:
        elements = text.removesuffix(".").split(".")
        if not text.endswith(".") or "*" not in elements or not text.isprintable():
            raise ValueError
        if any(not element or (element != "*" and not set("*>#?,/").isdisjoint(element)) for element in elements):
            raise ValueError
        return text


class DestinationName(Kind):
    """A destination to make, as (kind, name)."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "queue://NAME or topic://NAME (no wildcard, no '?'); a plain name is a queue"

    def parse(self, text: str) -> tuple[int, str]:
        kind = QUEUE
        name = text
        for prefix, found in (("queue://", QUEUE), ("/queue/", QUEUE), ("topic://", TOPIC), ("/topic/", TOPIC)):
            if text.startswith(prefix):
                kind, name = found, text.removeprefix(prefix)
                break
        parsed = QueueName().parse(name)
        if parsed is None:
            raise ValueError
        return kind, parsed

    def show(self, value: object) -> str:
        assert isinstance(value, tuple), f"a destination is {type(value)}"
        kind, name = value
        return f"{'queue' if kind == QUEUE else 'topic'}://{name}"


class PropertyName(Kind):
    """The name of a message property; empty for none."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "the name of a message property, at most 255 printable characters; empty for none"

    def parse(self, text: str) -> str:
        if len(text) > 255 or not text.isprintable():
            raise ValueError
        return text


class NamePart(Kind):
    """A prefix or suffix that makes another name of a destination's; may be empty."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "a part of a name as in 'DLQ.', at most 255 printable characters without wildcards, '?', ',' and '/'"

    def parse(self, text: str) -> str:
        if len(text) > 255 or not text.isprintable() or not set("*>#?,/").isdisjoint(text):
            raise ValueError
        return text


class AddressPattern(Kind):
    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "a name or pattern of elements separated by '.', '*' for one element, '>' or '#' for the rest"

    def parse(self, text: str) -> Pattern:
        if not text or not text.isprintable():
            raise ValueError
        if "/" in text:  # a name may hold slashes, but this is far more likely a STOMP destination pasted here
            raise ValueError("looks like a STOMP destination; write the name alone, and 'kind: queue' or 'kind: topic'")
        try:
            return Pattern.parse(text)
        except InvalidPattern as error:
            raise ValueError(str(error)) from None

    def show(self, value: object) -> str:
        assert isinstance(value, Pattern), f"a pattern is {type(value)}"
        return value.text


_VERIFIER: Final = re.compile(
    r"(SCRAM-SHA-256|SCRAM-SHA-512)\$([0-9]{1,7}):([A-Za-z0-9+/]+={0,2})\$([A-Za-z0-9+/]+={0,2}):([A-Za-z0-9+/]+={0,2})",
    re.ASCII,
)


class Verifier(Kind):
    """A verifier: it proves a password without holding it (RFC 5803)."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "a SCRAM-SHA-256 or SCRAM-SHA-512 verifier as 'penstock user hash NAME' prints it"

    def parse(self, text: str) -> str:
        match = _VERIFIER.fullmatch(text)
        if match is None:
            raise ValueError
        digest_size = 32 if match[1] == "SCRAM-SHA-256" else 64
        encoded_size = (digest_size + 2) // 3 * 4
        if len(match[4]) != encoded_size or len(match[5]) != encoded_size or len(match[3]) % 4:
            raise ValueError("has keys of a wrong length for its mechanism")
        if not 4_096 <= int(match[2]) <= 9_999_999:
            raise ValueError("has an iteration count outside 4096 to 9999999 (RFC 7677)")
        return text
