"""Kinds of values: names of users, groups, queues and destinations, patterns, time zones, verifiers."""

from __future__ import annotations

import re
from typing import ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from config.access_tokens import NEVER, day_s
from config.matching import QUEUE, TOPIC, InvalidPattern, Pattern
from config.reserved_names import RESERVED_NAMES
from config.values import JsonSchema, Kind


class TimeZone(Kind):
    """The name of a time zone, or ``local`` for the machine's."""

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
    """The name of a login.  It has no ``:``, which HTTP Basic could not carry."""

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
        return (
            "the name of a queue as in ActiveMQ.DLQ (no wildcard, no '?', none of the gateway's own as "
            "Penstock.Schedule), or null to drop such messages"
        )

    def parse(self, text: str) -> str | None:
        if text in ("null", "~"):
            return None
        name = text.removeprefix("queue://").removeprefix("/queue/")
        if not name or len(name.encode()) > 1024 or not name.isprintable() or "?" in name or "," in name:
            raise ValueError
        if not Pattern.parse(name).is_exact or name in RESERVED_NAMES:
            raise ValueError
        return name

    def show(self, value: object) -> str:
        return "null" if value is None else str(value)

    def json_schema(self) -> JsonSchema:
        return {"type": ["string", "null"]}


class GroupName(Kind):
    """A group, to which permissions are granted; ``*`` is everybody."""

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
    """A prefix or suffix added to a destination's name; may be empty."""

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
        if "/" in text:  # a name may contain slashes, but this is most likely a STOMP destination
            raise ValueError("looks like a STOMP destination; write the name alone, and 'kind: queue' or 'kind: topic'")
        try:
            return Pattern.parse(text)
        except InvalidPattern as error:
            raise ValueError(str(error)) from None

    def show(self, value: object) -> str:
        assert isinstance(value, Pattern), f"a pattern is {type(value)}"
        return value.text


_ACCESS_TOKEN: Final = re.compile(r"([A-Za-z0-9_.-]{1,64})\$(never|\d{4}-\d{2}-\d{2})\$([0-9a-f]{64})")
_VERIFIER: Final = re.compile(
    r"(SCRAM-SHA-256|SCRAM-SHA-512)\$([0-9]{1,7}):([A-Za-z0-9+/]+={0,2})\$([A-Za-z0-9+/]+={0,2}):([A-Za-z0-9+/]+={0,2})",
    re.ASCII,
)


class AccessTokenText(Kind):
    """An access token's name, end and digest (config.access_tokens)."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        return "NAME$DAY$DIGEST as 'penstock user token' writes it; DAY is never, or as in 2027-01-31"

    def parse(self, text: str) -> str:
        match = _ACCESS_TOKEN.fullmatch(text)
        if match is None:
            raise ValueError
        if match[2] != NEVER:
            try:
                day_s(match[2])
            except ValueError:
                raise ValueError("has a day that does not exist") from None
        return text

    def json_schema(self) -> JsonSchema:
        return {"type": "string"}


class Verifier(Kind):
    """A verifier, which proves a password without containing it (RFC 5803)."""

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
