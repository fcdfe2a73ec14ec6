"""Bodies of requests: only what is read in one step that holds the event loop for milliseconds.

Python has a codec for every name that a client may think of: those of punycode and idna take most of a minute for a
megabyte.  A megabyte of JSON has up to half a million values, or numbers of thousands of digits: a tenth of a second.
"""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import HttpVersion11, web

from gateway.web.routing.fields import shown
from gateway.web.routing.problems import Problem, UnclearLength

UTF_8: Final = ("utf-8", "us-ascii")  # us-ascii is a part of it
OF_FORMS: Final = (*UTF_8, "iso-8859-1")
JSON_PARTS_MAX: Final = 50_000  # of a JSON body: texts, commas, opening brackets and braces
JSON_DIGITS_MAX: Final = 400  # of a whole number: Python needs time by the square of them; a double has 309
NOT_AN_OBJECT: Final = "the body is not a JSON object"
CONTENT_TYPE_MOST: Final = 250  # characters; 8,000 of them take the email package, which aiohttp asks, up to a second


class RepeatedMember(ValueError):
    """A member's name."""


def refuse_unclear_length(request: web.Request) -> None:
    """Allow one Transfer-Encoding: chunked, of HTTP/1.1.  Raises: Problem.

    aiohttp also takes ``identity, chunked``, ``,chunked`` and an empty one.  A proxy before the gateway may see the end
    of the body elsewhere, and pass one client's octets on as another's request (RFC 9112, 6.1 and 11.2).
    """
    given = request.headers.getall("Transfer-Encoding", [])
    if given and ([one.strip().lower() for one in given] != ["chunked"] or request.version < HttpVersion11):
        seen = f"{shown(', '.join(given))} in HTTP/{request.version.major}.{request.version.minor}"
        raise UnclearLength(400, f"Transfer-Encoding is {seen}; allowed is chunked in HTTP/1.1, or none")


def refuse_encoding(request: web.Request) -> None:
    """Take no compressed body: few octets of it, also from a client without a login, cost everybody a turn.

    Raises: Problem.
    """
    given = request.headers.get("Content-Encoding", "")
    if given.strip().lower() not in ("", "identity"):
        raise Problem(
            415,
            f"Content-Encoding is {shown(given)}; allowed is a body that is not compressed",
            headers={"Accept-Encoding": "identity"},
        )


def check_content_type(request: web.Request) -> None:
    """Make sure that aiohttp can tell the content type and the charset.  Raises: Problem."""
    told = request.headers.get("Content-Type", "")
    try:
        if len(told) <= CONTENT_TYPE_MOST:
            request.content_type  # noqa: B018  # it is parsed when it is first asked for, and then kept
            return
    except (ValueError, RecursionError):  # parameters of RFC 2231 may name a charset of their own
        pass
    allowed = f"type/subtype and parameters, at most {CONTENT_TYPE_MOST} characters"
    raise Problem(400, f"Content-Type is {shown(told)}; allowed is {allowed}")


def refuse_charset(request: web.Request, allowed: tuple[str, ...] = UTF_8) -> None:
    """Raises: Problem if the Content-Type names another charset."""
    charset = request.charset
    if charset is not None and charset.lower() not in allowed:
        raise Problem(400, f"charset is {shown(charset)}; allowed is one of {', '.join(allowed)}")


async def json_object(request: web.Request) -> dict[str, Any]:
    """Return the body's JSON object; it is UTF-8 (RFC 8259, 8.1).  Raises: Problem."""
    asked = await json_document(request)
    if not isinstance(asked, dict):
        raise _no_json(NOT_AN_OBJECT)
    return asked


async def json_document(request: web.Request) -> Any:
    """Return the JSON of the body, an empty one as None.

    Raises: Problem for anything else, for example deeply nested JSON, and for more parts than are parsed in one step.
    """
    refuse_charset(request)
    octets = await request.read()
    if has_many_parts(octets):
        raise Problem(
            413,
            f"the JSON has more than {JSON_PARTS_MAX} texts, commas and opening brackets, which is the limit; "
            "where it is a message, send it as the request's body (POST /api/destinations/DEST/body)",
        )
    try:
        return json.loads(octets.decode() or "null", parse_int=_whole, object_pairs_hook=_members)
    except RepeatedMember as error:
        raise _no_json(f"the body has the member {shown(str(error))} twice in one object") from None
    except (ValueError, RecursionError):  # no JSON, no UTF-8, too deep
        raise _no_json(NOT_AN_OBJECT) from None


def _no_json(seen: str) -> Problem:
    return Problem(
        400,
        f"{seen}; allowed is one in UTF-8, with each member once, not deeply nested, whose whole numbers have at most "
        f"{JSON_DIGITS_MAX} digits",
    )


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises: RepeatedMember: readers differ in which of two they take (RFC 8259, 4)."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedMember(name)
        found[name] = value
    return found


def has_many_parts(octets: bytes) -> bool:
    """Say whether JSON has more parts than ``JSON_PARTS_MAX``.

    What is no JSON may give any answer, as its parsing ends at the first mistake, before as many parts.
    """
    if len(octets) <= JSON_PARTS_MAX:
        return False
    plain = octets.replace(rb"\\", b"").replace(rb"\"", b"")
    texts = plain.count(b'"') // 2
    if texts > JSON_PARTS_MAX:
        return True
    outside = b"".join(plain.split(b'"')[::2])
    return texts + sum(outside.count(mark) for mark in (b",", b"[", b"{")) > JSON_PARTS_MAX


def _whole(digits: str) -> int:
    """Raises: ValueError for too many."""
    if len(digits) > JSON_DIGITS_MAX:
        raise ValueError
    return int(digits)


async def form_fields(request: web.Request) -> dict[str, str]:
    """Return the fields of a form (application/x-www-form-urlencoded).  Raises: Problem."""
    refuse_charset(request, OF_FORMS)
    try:
        form = await request.post()
    except UnicodeDecodeError as error:
        raise Problem(400, f"the form is not {request.charset or 'utf-8'} at octet {error.start}") from None
    except ValueError as error:
        raise Problem(400, f"the form cannot be read: {error}") from None
    return {name: value for name, value in form.items() if isinstance(value, str)}
