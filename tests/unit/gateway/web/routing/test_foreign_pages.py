"""What a page of another site cannot make a browser ask."""

from __future__ import annotations

import pytest

from tests.support.web import GUARDED, basic, serving

BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}
HOST = {"Host": "10.1.2.3:8161"}
CROSS = {**BROWSER, "Sec-Fetch-Site": "cross-site"}
IMAGE = {**CROSS, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
LINK = {**CROSS, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
FRAME = {**LINK, "Sec-Fetch-Dest": "iframe"}
OWN_PAGE = {**BROWSER, **HOST, "Referer": "http://10.1.2.3:8161/console/"}
EVENTS = "/api/events?for_ms=0"  # holds one of few places
TAKES = "/api/message/q?type=queue&readTimeout=0"


@pytest.mark.parametrize(
    ("path", "headers", "is_taken"),
    [
        (EVENTS, {}, True),
        (EVENTS, IMAGE, False),
        (EVENTS, LINK, False),
        (EVENTS, {**IMAGE, "Sec-Fetch-Site": "same-site"}, False),
        (EVENTS, {**BROWSER, "Sec-Fetch-Site": "same-origin"}, True),
        (EVENTS, {**BROWSER, "Sec-Fetch-Site": "none"}, True),
        (EVENTS, {**BROWSER, **HOST}, False),
        (EVENTS, OWN_PAGE, True),
        (EVENTS, {**OWN_PAGE, "Referer": "https://10.1.2.3:8161/console/"}, True),
        (EVENTS, {**OWN_PAGE, "Referer": "http://10.1.2.3:8161.evil.example/"}, False),
        (EVENTS, {**OWN_PAGE, "Referer": "http://evil.example/?http://10.1.2.3:8161/"}, False),
        (TAKES, IMAGE, False),
        (TAKES, {**BROWSER, **HOST}, False),
        ("/api/stat", IMAGE, False),
        ("/api/stat", FRAME, False),
        ("/api/stat", LINK, True),
        ("/api/stat", {**BROWSER, **HOST}, True),
        ("/nothing", IMAGE, False),
        ("/console/", LINK, True),
        ("/console/", FRAME, True),
        ("/healthz", IMAGE, True),
    ],
)
async def test_what_a_page_may_ask(path: str, headers: dict[str, str], is_taken: bool) -> None:
    async with serving() as client:
        response = await client.get(path, headers=headers)
        assert (response.status != 403) is is_taken, await response.text()


async def test_the_refusal_names_what_is_allowed() -> None:
    async with serving() as client:
        text = await (await client.get(EVENTS, headers=IMAGE)).text()
        assert "(Sec-Fetch-Site: cross-site); allowed are programs and this server's pages" in text
        text = await (await client.get(EVENTS, headers={**BROWSER, **HOST})).text()
        assert "POST /api/destinations/DEST/take" in text


async def test_a_foreign_page_is_refused_before_its_password_is_looked_at() -> None:
    async with serving(login_check=GUARDED) as client:
        assert (await client.get(EVENTS, headers={**IMAGE, **basic("alice", "wrong")})).status == 403


async def test_pages_of_the_console_name_themselves_to_this_server_alone() -> None:
    async with serving() as client:
        assert (await client.get("/console/")).headers["Referrer-Policy"] == "same-origin"
