"""Bodies of requests: JSON in UTF-8 whatever else a client names, because some codecs of Python's are slow."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.web import listening, serving

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
