"""Bodies of requests: JSON in UTF-8 whatever else a client names, because some codecs of Python's are slow."""

from __future__ import annotations

import pytest

from tests.support.web import serving

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
