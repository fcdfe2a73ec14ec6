"""Parameters of paths and queries, and members of JSON bodies: each checks a value and describes what it allows.

The checks of a request and its description in ``/api/openapi.json`` come from the same field, so they agree.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from config.names import DestinationName
from gateway.web.routing.problems import Problem

PROPERTIES_MAX: Final = 1_000  # of a message: each has a cost, and as many headers of a STOMP frame are allowed
NUMBER_MOST: Final = 2**63 - 1
SEEN_CHARACTERS: Final = 80  # of a wrong value, in an error

Schema = dict[str, Any]
Value = TypeVar("Value")


class _Required:
    """The default of a field that a request must have."""


REQUIRED: Final = _Required()


class Field(ABC, Generic[Value]):
    """One parameter or member.  says: its meaning, a sentence.  default: the value of a request without it."""

    def __init__(self, name: str, says: str, default: Value | _Required | None = REQUIRED) -> None:
        self.name = name
        self.says = says
        self.default = default

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @abstractmethod
    def allowed(self) -> str:
        """Return the allowed values in words."""

    @abstractmethod
    def schema(self) -> Schema:
        """Return the allowed values as JSON Schema."""

    def text_schema(self) -> Schema:
        """Return the same for a parameter, where it is a text."""
        return self.schema()

    @abstractmethod
    def take_text(self, text: str) -> Value:
        """Return the value of a parameter.  Raises: ValueError."""

    @abstractmethod
    def take(self, value: object) -> Value:
        """Return the value of a member of a JSON object.  Raises: ValueError."""

    def wrong(self, seen: object) -> Problem:
        return Problem(400, f"{self.name} is {shown(seen)}; allowed is {self.allowed()}")


class Text(Field[str]):
    """most: characters.  meaning: what the text must be, in words, "" for any."""

    def __init__(
        self,
        name: str,
        says: str,
        default: str | _Required | None = REQUIRED,
        most: int = 0,
        meaning: str = "",
    ) -> None:
        super().__init__(name, says, default)
        self.most = most
        self.meaning = meaning

    def allowed(self) -> str:
        return (self.meaning or "a text") + (f" of at most {self.most} characters" if self.most else "")

    def schema(self) -> Schema:
        return {"type": "string", **({"maxLength": self.most} if self.most else {})}

    def take_text(self, text: str) -> str:
        if self.most and len(text) > self.most:
            raise ValueError
        text.encode()  # half of a surrogate pair is no Unicode
        return text

    def take(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        return self.take_text(value)


class Choice(Text):
    """One of some words."""

    def __init__(self, name: str, says: str, words: Iterable[str], default: str | _Required = REQUIRED) -> None:
        super().__init__(name, says, default)
        self.words = tuple(words)

    def allowed(self) -> str:
        return "one of " + ", ".join(self.words)

    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.words)}

    def take_text(self, text: str) -> str:
        if text not in self.words:
            raise ValueError
        return text


class Sort(Choice):
    """A column, with ``-`` before it for the largest first."""

    def __init__(self, columns: list[str], default: str) -> None:
        words = [f"{sign}{column}" for column in columns for sign in ("", "-")]
        super().__init__("sort", "The column by which rows are sorted; - before it: the largest first.", words, default)
        self._columns = columns

    def allowed(self) -> str:
        return f"a column, with - before it for the largest first: {', '.join(self._columns)}"


class Whole(Field[int]):
    """A whole number.  least, most: both inclusive."""

    def __init__(
        self,
        name: str,
        says: str,
        least: int = 0,
        most: int = NUMBER_MOST,
        default: int | _Required | None = REQUIRED,
    ) -> None:
        super().__init__(name, says, default)
        self.least = least
        self.most = most

    def allowed(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def take_text(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(self.most))):
            raise ValueError
        return self.take(int(text))

    def take(self, value: object) -> int:
        if isinstance(value, float) and value.is_integer():  # JSON knows one kind of number: 1.0 is 1
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise ValueError
        return value


class Flag(Field[bool]):
    def __init__(self, name: str, says: str, default: bool | _Required = False) -> None:
        super().__init__(name, says, default)

    def allowed(self) -> str:
        return "true or false"

    def schema(self) -> Schema:
        return {"type": "boolean"}

    def take_text(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError
        return text == "true"

    def take(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value


class Destination(Field[tuple[int, str]]):
    """A destination as (kind of config.matching, name)."""

    def allowed(self) -> str:
        return DestinationName().allowed

    def schema(self) -> Schema:
        return {"type": "string", "description": self.allowed()}

    def take_text(self, text: str) -> tuple[int, str]:
        return DestinationName().parse(text)

    def take(self, value: object) -> tuple[int, str]:
        if not isinstance(value, str):
            raise ValueError
        return self.take_text(value)


class Texts(Field[list[str]]):
    """A list of texts.  most: of them."""

    def __init__(self, name: str, says: str, most: int, default: list[str] | _Required | None = REQUIRED) -> None:
        super().__init__(name, says, default)
        self.most = most

    def allowed(self) -> str:
        return f"a list of at most {self.most} texts"

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string"}, "maxItems": self.most}

    def take_text(self, text: str) -> list[str]:
        return self.take(text.split(","))

    def take(self, value: object) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value) or len(value) > self.most:
            raise ValueError
        return value


class Properties(Field[dict[str, str | int | float | bool]]):
    """Names with texts, numbers or booleans; as a parameter the JSON text of such an object."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(name, says, {})

    def allowed(self) -> str:
        return f"a JSON object of at most {PROPERTIES_MAX} texts, finite numbers or booleans"

    def schema(self) -> Schema:
        values = {"type": ["string", "number", "boolean"]}
        return {"type": "object", "additionalProperties": values, "maxProperties": PROPERTIES_MAX}

    def text_schema(self) -> Schema:
        return {"type": "string", "contentMediaType": "application/json", "description": self.allowed()}

    def take_text(self, text: str) -> dict[str, str | int | float | bool]:
        try:
            return self.take(json.loads(text))
        except RecursionError:
            raise ValueError from None

    def take(self, value: object) -> dict[str, str | int | float | bool]:
        if not isinstance(value, dict) or len(value) > PROPERTIES_MAX:
            raise ValueError
        for one in value.values():
            if not isinstance(one, str | int | float) or (isinstance(one, float) and not math.isfinite(one)):
                raise ValueError
            if isinstance(one, int) and not -NUMBER_MOST <= one <= NUMBER_MOST:
                raise ValueError
        for text in (*value, *value.values()):
            if isinstance(text, str):
                text.encode()  # half of a surrogate pair is no Unicode
        return value


class Anything(Field[Any]):
    """Any JSON value, None for none."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(name, says, None)

    def allowed(self) -> str:
        return "any JSON value"

    def schema(self) -> Schema:
        return {}

    def take_text(self, text: str) -> Any:
        raise ValueError

    def take(self, value: object) -> Any:
        return value


Fields = tuple[Field[Any], ...]


def read_texts(fields: Fields, given: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the values of parameters, with defaults.  Raises: Problem."""
    return _read(fields, given, "parameter", is_text=True)


def read_members(fields: Fields, given: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of a JSON object's members, with defaults.  Raises: Problem."""
    return _read(fields, given.items(), "member", is_text=False)


def object_schema(fields: Fields) -> Schema:
    """Return the schema of a JSON object with these members."""
    return {
        "type": "object",
        "properties": {field.name: described(field) for field in fields},
        "required": [field.name for field in fields if field.is_required],
        "additionalProperties": False,
    }


def described(field: Field[Any], is_text: bool = False) -> Schema:
    """Return the schema with its description.  is_text: of a parameter."""
    default = {} if field.is_required or not field.default else {"default": field.default}
    schema = field.text_schema() if is_text else field.schema()
    more = schema.pop("description", "")
    return {**schema, **default, "description": f"{field.says} Allowed: {more}." if more else field.says}


def shown(seen: object) -> str:
    """Return a wrong value for an error: as a client wrote it, not too long, without characters that do not print."""
    if isinstance(seen, str):
        return (repr(seen) if seen.isprintable() else ascii(seen))[:SEEN_CHARACTERS]
    return json.dumps(seen)[:SEEN_CHARACTERS]


def _read(fields: Fields, given: Iterable[tuple[str, Any]], what: str, is_text: bool) -> dict[str, Any]:
    known = {field.name: field for field in fields}
    values: dict[str, Any] = {}
    for name, value in given:
        field = known.get(name)
        if field is None:
            allowed = f"allowed are {', '.join(known)}" if known else "none is allowed"
            raise Problem(400, f"{what} {shown(name)} is not known; {allowed}")
        if name in values:
            raise Problem(400, f"{what} {name} is given twice; allowed is once")
        try:
            values[name] = field.take_text(value) if is_text else field.take(value)
        except ValueError:
            raise field.wrong(value) from None
    for field in fields:
        if field.name not in values:
            if field.is_required:
                raise Problem(400, f"{what} {field.name} is missing; allowed is {field.allowed()}")
            values[field.name] = field.default
    return values
