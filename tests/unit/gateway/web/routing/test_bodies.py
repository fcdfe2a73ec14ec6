"""Bodies of requests: JSON in UTF-8 whatever else a client names, because some codecs of Python's are slow."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from engine.values.errors import AccessDenied
from gateway.web.rest.named_destination import Named
from gateway.web.rest.requests import Asking, Outgoing
from gateway.web.routing.bodies import JSON_DIGITS_MAX, JSON_PARTS_MAX, has_many_parts
from tests.support.web import NoMessages, listening, serving

QUEUE = '{"queue": "dead"}'


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-16", "unicode_escape", "no-such-charset"])
async def test_json_in_another_charset_is_refused_before_it_is_decoded(charset: str) -> None:
    async with serving() as client:
        headers = {"Content-Type": f"application/json; charset={charset}"}
        response = await client.post("/api/retry", data=QUEUE.encode(), headers=headers)
        assert response.status == 400
        detail = (await response.json(content_type=None))["detail"]
        assert detail == f"charset is '{charset}'; allowed is one of utf-8, us-ascii"


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=UTF-8", "x/y; charset=us-ascii", ""])
async def test_json_is_utf_8(kind: str) -> None:
    async with serving() as client:
        response = await client.post("/api/retry", data=QUEUE.encode(), headers={"Content-Type": kind})
        assert response.status == 201, await response.text()
        response = await client.post("/api/retry", data=b'{"queue": "\xff"}', headers={"Content-Type": kind})
        assert response.status == 400
        assert "not a JSON object" in await response.text()


@pytest.mark.parametrize(
    "kind",
    ["x/y; charset*=idna''a", "x/y; charset*=utf-16''a", "x/y; a*\xb2=a", "x/y; " + "(" * 250, "x/y; a=" + "b" * 250],
)
@pytest.mark.parametrize("path", ["/api/retry", "/api/destinations/q/body", "/api/message/q?type=queue"])
async def test_a_content_type_that_cannot_be_read(kind: str, path: str, caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\nContent-Type: {kind}"
        )
        writer.write(head.encode() + b"\r\n\r\n{}")
        answer = await reader.read()
        writer.close()
    assert (b" 400 " in answer.splitlines()[0], b"Content-Type is" in answer) == (True, True), answer
    assert caplog.records == []


class Sending(NoMessages):
    """Takes messages for ``q`` only; remembers them."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    def require_target(self, asking: Asking, destination: Named) -> None:
        if destination[1] != "q":
            raise AccessDenied("no permission")

    async def send(self, asking: Asking, destination: Named, outgoing: Outgoing) -> str | None:
        self.sent.append(outgoing)
        return None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/destinations/other/messages", "application/json"),
        ("/api/destinations/other/body", "text/plain"),
        ("/api/message/other?type=queue", "application/x-www-form-urlencoded"),
    ],
)
async def test_the_destination_is_checked_before_the_body_is_parsed(path: str, kind: str) -> None:
    async with serving(messages=Sending()) as client:
        response = await client.post(path, data=b"\xff[", headers={"Content-Type": kind})
        assert (response.status, (await response.json(content_type=None))["condition"]) == (403, "access-denied")


async def sent_json(document: str) -> tuple[int, Any, list[Outgoing]]:
    messages = Sending()
    async with serving(messages=messages) as client:
        response = await client.post("/api/destinations/q/messages", data=document.encode())
        return response.status, await response.json(content_type=None), messages.sent


@pytest.mark.parametrize(
    "value",
    [
        "[" + "[]," * (JSON_PARTS_MAX // 2) + "1]",
        "[" + "1," * JSON_PARTS_MAX + "1]",
        "[" + '"",' * (JSON_PARTS_MAX // 2) + "1]",
        "[" + ",".join(["[" * 400 + "]" * 400] * (JSON_PARTS_MAX // 400 + 1)) + "]",
        "{" + ",".join(f'"{number}":1' for number in range(JSON_PARTS_MAX // 2 + 1)) + "}",
        "[" + '"\\\\",' * (JSON_PARTS_MAX // 2) + "1]",
    ],
    ids=["lists", "numbers", "texts", "nested", "names", "backslashes"],
)
async def test_json_of_more_parts_than_one_step_parses_is_refused(value: str) -> None:
    status, answer, sent = await sent_json(f'{{"body_json": {value}}}')
    assert (status, answer["condition"], sent) == (413, "body-too-large", [])
    assert f"more than {JSON_PARTS_MAX} texts, commas and opening brackets" in answer["detail"]


@pytest.mark.parametrize("text", ["a,[{" * 100_000, '",' * 100_000, "\\," * 100_000, '\\",[' * 100_000])
async def test_a_text_is_one_part_whatever_it_holds(text: str) -> None:
    status, answer, sent = await sent_json(json.dumps({"body": text}))
    assert (status, [one.body.decode() == text for one in sent]) == (201, [True]), answer


@pytest.mark.parametrize(
    "document", [{"ids": ["i" * 40] * 10_000}, {"body_json": list(range(JSON_PARTS_MAX - 3))}], ids=["ids", "numbers"]
)
def test_json_of_as_many_parts_as_are_allowed(document: dict[str, Any]) -> None:
    assert not has_many_parts(json.dumps(document).encode())


async def test_numbers_have_limits() -> None:
    longest = "1" * JSON_DIGITS_MAX
    status, answer, sent = await sent_json(f'{{"body_json": [{longest}]}}')
    assert (status, [one.body.decode() for one in sent]) == (201, [f"[{longest}]"]), answer
    status, answer, sent = await sent_json(f'{{"body_json": [{longest}1]}}')
    assert (status, sent) == (400, [])
    assert f"whole numbers have at most {JSON_DIGITS_MAX} digits" in answer["detail"]


async def statuses(version: str, coding: str, body: bytes) -> list[bytes]:
    """Send a body with this Transfer-Encoding, and another request behind it; return the statuses of the answers."""
    head = f"POST /api/retry HTTP/{version}\r\nHost: localhost\r\nConnection: keep-alive\r\n{coding}\r\n\r\n".encode()
    behind = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with listening() as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(head + body + behind)
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
    return re.findall(rb"HTTP/1\.[01] (\d+)", answer)


CHUNKED = f"{len(QUEUE):x}\r\n{QUEUE}\r\n0\r\n\r\n".encode()


@pytest.mark.parametrize("coding", ["chunked", "CHUNKED", " chunked "])
async def test_a_chunked_body_has_one_end(coding: str) -> None:
    assert await statuses("1.1", f"Transfer-Encoding: {coding}", CHUNKED) == [b"201", b"200"]


@pytest.mark.parametrize(
    ("version", "coding"),
    [
        ("1.1", "Transfer-Encoding: identity, chunked"),
        ("1.1", "Transfer-Encoding: identity, identity, chunked"),
        ("1.1", "Transfer-Encoding: ,chunked"),
        ("1.1", "Transfer-Encoding: gzip, chunked"),
        ("1.1", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"),
        ("1.1", "Transfer-Encoding: chunked, identity"),
        ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5"),
        ("1.0", "Transfer-Encoding: chunked"),
    ],
)
async def test_a_body_whose_end_is_unclear_ends_the_connection(version: str, coding: str) -> None:
    assert await statuses(version, coding, CHUNKED) == [b"400"]


async def test_an_empty_transfer_encoding_is_refused() -> None:
    assert await statuses("1.1", "Transfer-Encoding:", b"") == [b"400"]
