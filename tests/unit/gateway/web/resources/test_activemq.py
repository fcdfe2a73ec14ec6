"""Forms that ActiveMQ's users send to its message servlet."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.web.rest.named_destination import Named
from gateway.web.rest.requests import Asking, Outgoing
from tests.support.web import NoMessages, serving

PATH = "/api/message/q?type=queue"


class Sending(NoMessages):
    """Remembers what is sent."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    async def send(self, asking: Asking, destination: Named, outgoing: Outgoing) -> str | None:
        self.sent.append(outgoing)
        return None


async def send_form(octets: bytes, charset: str, messages: Sending) -> tuple[int, Any]:
    kind = "application/x-www-form-urlencoded" + (f"; charset={charset}" if charset else "")
    async with serving(messages=messages) as client:
        response = await client.post(PATH, data=octets, headers={"Content-Type": kind})
        return response.status, await response.read()


@pytest.mark.parametrize(
    ("octets", "charset"),
    [(b"body=\xc3\xa4", ""), (b"body=%C3%A4", "UTF-8"), (b"body=\xe4", "iso-8859-1"), (b"body=%E4", "ISO-8859-1")],
)
async def test_a_form_in_a_charset_of_forms(octets: bytes, charset: str) -> None:
    messages = Sending()
    assert (await send_form(octets, charset, messages))[0] == 200
    assert messages.sent[0].body.decode() == "ä"


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-7", "no-such-charset"])
async def test_a_form_in_another_charset_is_refused(charset: str) -> None:
    messages = Sending()
    status, octets = await send_form(b"body=a", charset, messages)
    assert status == 400
    assert f"charset is '{charset}'; allowed is one of utf-8, us-ascii, iso-8859-1".encode() in octets
    assert messages.sent == []


@pytest.mark.parametrize(
    ("octets", "charset"),
    [(b"body=\xff", ""), (b"a=\xff", "utf-8"), (b"body=\xe4", "us-ascii")],
)
async def test_a_form_that_is_not_in_its_charset_is_no_defect(
    octets: bytes, charset: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, answer = await send_form(octets, charset, Sending())
    assert (status, caplog.records) == (400, []), answer
    assert f"the form is not {charset or 'utf-8'} at octet {len(octets) - 1}".encode() in answer
