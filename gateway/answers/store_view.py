"""Questions to a store, and their answers, as JSON: the same on the command line and over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from config.values import MOMENT_ALLOWED, moment_ms
from engine.store.read.found_message import LIMIT_DEFAULT, LIMIT_MAX, NO_END, Bounds, FoundMessage
from engine.store.read.query import StoreQuery
from engine.store.read.reader import StoreReader
from engine.values.message import AMQP_1_0, OPENWIRE, STOMP, split_annotations
from gateway.answers.questions import WrongQuestion, number_in
from gateway.settings.message_keys import MESSAGE_KEYS

ENCODINGS: Final = {STOMP: "stomp", AMQP_1_0: "amqp-1.0", OPENWIRE: "openwire"}
SUBJECTS: Final = ("id", "key", "destination")
NUMBERS: Final = ("from-offset", "to-offset", "before", "limit")
KNOWN: Final = (*SUBJECTS, "from", "to", *NUMBERS, "body")


@dataclass(frozen=True, slots=True)
class Question:
    """A query by ``message_id``, ``key`` or ``destination``; only the last two may go together."""

    message_id: str
    key: str
    destination: str
    bounds: Bounds
    has_body: bool


def question_of(asked: Mapping[str, str]) -> Question:
    """Return the query of these parameters.  Raises: WrongQuestion, which names what was seen and what is allowed."""
    for name in asked:
        if name not in KNOWN:
            raise WrongQuestion(f"{name[:80]!r} is not known; allowed are {', '.join(KNOWN)}")
    subjects = [name for name in SUBJECTS if asked.get(name)]
    if subjects not in (["id"], ["key"], ["destination"], ["key", "destination"]):
        raise WrongQuestion(
            f"asked for is {' and '.join(subjects) or 'nothing'}; allowed is an id, a key or a destination, "
            "or a key in a destination"
        )
    body = asked.get("body", "false")
    if body not in ("true", "false"):
        raise WrongQuestion(f"body is {body[:80]!r}; allowed is true or false")
    limit = number_in(asked, "limit", LIMIT_DEFAULT)
    if not 1 <= limit <= LIMIT_MAX:
        raise WrongQuestion(f"limit is {limit}; allowed is 1 to {LIMIT_MAX}")
    bounds = Bounds(
        _time_ms(asked, "from", 0),
        _time_ms(asked, "to", NO_END - 1),
        number_in(asked, "from-offset", 0),
        number_in(asked, "to-offset", NO_END),
        number_in(asked, "before", NO_END),
        limit,
    )
    _check_order(asked, "from", bounds.from_ms, "to", bounds.to_ms)
    _check_order(asked, "from-offset", bounds.from_entry, "to-offset", bounds.to_entry)
    return Question(asked.get("id", ""), asked.get("key", ""), asked.get("destination", ""), bounds, body == "true")


def answer(reader: StoreReader, question: Question, body_bytes_max: int = NO_END) -> dict[str, Any]:
    """Return the messages, newest first, and the parameter for the next page.

    body_bytes_max: longer bodies are left out.
    Raises: StoreError.
    """
    with StoreQuery(reader, MESSAGE_KEYS) as query:
        if question.message_id:
            end = reader.end()
            found = [query.by_id(question.message_id)]
            next_before, scanned_bytes, until_offset, until_ms = 0, 0, end.offset, end.time_ms
            damaged: list[int] = []
        else:
            if question.key:
                page = query.by_key(question.key, question.bounds, question.destination)
            else:
                page = query.by_destination(question.destination, question.bounds)
            found, next_before = page.messages, page.next_before
            scanned_bytes, until_offset, until_ms = page.scanned_bytes, page.until_offset, page.until_ms
            damaged = page.damaged
    return {
        "messages": [
            message_document(message, question.has_body and len(message.body) <= body_bytes_max) for message in found
        ],
        "next_before": next_before,
        "scanned_bytes": scanned_bytes,
        "damaged": damaged,
        "until_offset": until_offset,
        "until_ms": until_ms,
    }


def message_document(message: FoundMessage, has_body: bool) -> dict[str, Any]:
    """Return one message; headers in other encodings than STOMP are in base64, and so is a body that is no text."""
    document: dict[str, Any] = {
        "id": message.message_id,
        "destination": message.destination,
        "priority": message.priority,
        "queue_offset": message.queue_offset,
        "log_offset": message.log_offset,
        "store_time_ms": message.store_time_ms,
        "expires_ms": message.expires_ms,
        "is_persistent": message.is_persistent,
        "is_dead_letter": message.is_dead_letter,
        "encoding": ENCODINGS.get(message.encoding, str(message.encoding)),
        "keys": message.keys,
        "annotations": _lines(message.annotations),
        "headers": _lines(message.headers) if message.encoding == STOMP else _base64(message.headers),
        "body_bytes": len(message.body),
    }
    if has_body:
        text = _text(message.body) if message.is_text else None
        document |= {"body_base64": _base64(message.body)} if text is None else {"body": text}
    return document


def _lines(octets: bytes) -> list[list[str]]:
    return [[name, value] for name, value in split_annotations(octets.decode("utf-8", "replace").encode())]


def _text(octets: bytes) -> str | None:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return None


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


def _check_order(asked: Mapping[str, str], low_name: str, low: int, high_name: str, high: int) -> None:
    if low > high:
        raise WrongQuestion(f"{low_name} is {asked[low_name]!r}, which is after {high_name}, {asked.get(high_name)!r}")


def _time_ms(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name, "")
    if not text:
        return default
    try:
        return moment_ms(text)
    except (ValueError, OverflowError):
        raise WrongQuestion(f"{name} is {text[:80]!r}; allowed are {MOMENT_ALLOWED}") from None
