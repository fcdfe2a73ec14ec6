"""Readings of the issuer's keys: when, how large, from where, and what remains if one fails."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jwt", reason="needs the extra jwt")

from config.login_servers import DISCOVERY, JwtConfig
from gateway.logins.key_source import ASKED_LEAST_S, DOCUMENT_BYTES_MAX, RETRY_S, KeySource, KeysUnusable
from gateway.process.counters import GatewayCounters
from tests.support.token_issuer import Issuer, KeyServer, serving_keys


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with serving_keys() as one:
        yield one


def source_of(keys: str, issuer: str = "https://login.example", **more: Any) -> KeySource:
    return KeySource(JwtConfig(issuer, "penstock", keys, fetch_time_ms=60_000, **more), GatewayCounters())


async def read(source: KeySource) -> None:
    source.refresh()
    await source.look_for("")
    while source.is_reading:
        await asyncio.sleep(0)


async def test_keys_of_a_url(server: KeyServer, caplog: pytest.LogCaptureFixture) -> None:
    source = source_of(server.publish("/keys", Issuer().jwks()))
    with caplog.at_level(logging.INFO):
        await source.look_for("one")
    assert source.keys is not None and source.keys.knows("one")
    assert f"1 keys of the issuer, from {server.url}/keys" in caplog.text


async def test_keys_that_a_discovery_document_names(server: KeyServer) -> None:
    issuer = server.url + "/realm"
    keys = server.publish("/other", Issuer().jwks())
    server.publish("/realm" + DISCOVERY, json.dumps({"issuer": issuer, "jwks_uri": keys}).encode())
    source = source_of("", issuer)
    await source.look_for("one")
    assert source.keys is not None
    assert server.asked == ["/realm" + DISCOVERY, "/other"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"issuer": "https://evil.example", "jwks_uri": "{url}/other"}, "is of another issuer"),
        ({"issuer": "{url}/realm", "jwks_uri": "http://192.0.2.1/other"}, "names no jwks_uri that may be asked"),
        ({"issuer": "{url}/realm", "jwks_uri": "file:///etc/passwd"}, "names no jwks_uri that may be asked"),
        ({"issuer": "{url}/realm", "jwks_uri": "https://a:b@login.example/"}, "names no jwks_uri that may be asked"),
        ({"issuer": "{url}/realm", "jwks_uri": "https://login.example/" + "x" * 3000}, "names no jwks_uri that may be"),
        ({"issuer": "{url}/realm", "jwks_uri": 5}, "names no jwks_uri that may be asked"),
        ({"issuer": "{url}/realm"}, "names no jwks_uri that may be asked"),
        ([], "is of another issuer"),
    ],
)
async def test_discovery_documents_that_are_not_followed(
    document: object, words: str, server: KeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.publish("/other", Issuer().jwks())
    server.publish("/realm" + DISCOVERY, json.dumps(document).replace("{url}", server.url).encode())
    source = source_of("", server.url + "/realm")
    await source.look_for("one")
    assert source.keys is None and source.counters.failed_key_readings == 1
    assert words in caplog.text and "no token is accepted until they can be read" in caplog.text
    assert server.asked == ["/realm" + DISCOVERY]


@pytest.mark.parametrize(
    ("status", "body", "headers", "words"),
    [
        (404, b"", {}, "answers 404; allowed is 200"),
        (302, b"", {"Location": "/keys"}, "answers 302; allowed is 200"),
        (200, b"<html>", {}, "is no JSON"),
        (200, b"[" * 100_000, {}, "/bad"),
        (200, b"{}", {}, "has no list 'keys'"),
        (200, b" " * (DOCUMENT_BYTES_MAX + 1), {}, "which is the limit"),
        (200, b"x", {"Content-Length": "5"}, "cannot be read"),
        (200, b"\xff", {}, "is no JSON"),
    ],
)
async def test_answers_that_hold_no_keys(
    status: int, body: bytes, headers: dict[str, str], words: str, server: KeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.publish("/keys", Issuer().jwks())
    source = source_of(server.publish("/bad", body, status, **headers))
    await source.look_for("one")
    assert source.keys is None and source.counters.failed_key_readings == 1
    assert words in caplog.text


async def test_an_outage_leaves_the_keys_from_before(server: KeyServer, caplog: pytest.LogCaptureFixture) -> None:
    source = source_of(server.publish("/keys", Issuer().jwks()))
    await read(source)
    before = source.keys
    server.publish("/keys", b"", 500)
    await read(source)
    assert source.keys is before is not None and source.counters.failed_key_readings == 1
    assert "answers 500; allowed is 200; the keys from before stay in use" in caplog.text


async def test_the_same_document_leaves_the_same_keys(server: KeyServer) -> None:
    issuer = Issuer()
    source = source_of(server.publish("/keys", issuer.jwks()))
    await read(source)
    before = source.keys
    await read(source)
    assert source.keys is before
    issuer.keys["two"] = issuer.keys.pop("one")
    server.publish("/keys", issuer.jwks())
    await read(source)
    assert source.keys is not None and source.keys.knows("two") and not source.keys.knows("one")


async def test_unknown_keys_bring_one_reading_forward(server: KeyServer) -> None:
    source = source_of(server.publish("/keys", Issuer().jwks()))
    for number in range(50):
        await source.look_for(f"unknown {number}")
    assert server.asked == ["/keys"] * 2, "the first one was due anyway"


async def test_unknown_keys_bring_one_reading_forward_during_an_outage(server: KeyServer) -> None:
    source = source_of(server.url + "/keys")
    for number in range(50):
        await source.look_for(f"unknown {number}")
    assert server.asked == ["/keys"]


async def test_who_comes_during_a_reading_waits_for_it(server: KeyServer) -> None:
    server.gate.clear()
    source = source_of(server.publish("/keys", Issuer().jwks()))
    waiting = [asyncio.ensure_future(source.look_for(f"{number}")) for number in range(100)]
    while not server.asked:
        await asyncio.sleep(0.001)
    assert not any(one.done() for one in waiting), "and the event loop goes on"
    server.gate.set()
    await asyncio.gather(*waiting)
    assert server.asked == ["/keys"]


async def test_a_server_that_says_nothing(server: KeyServer, caplog: pytest.LogCaptureFixture) -> None:
    server.gate.clear()
    config = JwtConfig("https://login.example", "penstock", server.publish("/keys", b""), fetch_time_ms=100)
    source = KeySource(config, GatewayCounters())
    await source.look_for("one")
    assert source.keys is None
    assert "has not answered within 0.1 s" in caplog.text


def test_when_keys_are_read_again(server: KeyServer) -> None:
    loop = Skipping()
    source = source_of(server.publish("/keys", Issuer().jwks()), refresh_ms=600_000)
    loop.run(read(source))
    for ahead_s, count in ((599.0, 1), (2.0, 2)):
        loop.ahead_s += ahead_s
        loop.run(looked_after(source))
        assert len(server.asked) == count
    server.publish("/keys", b"", 500)
    loop.ahead_s += 601
    loop.run(looked_after(source))
    server.publish("/keys", Issuer().jwks())
    for ahead_s, count in ((RETRY_S - 1, 3), (2.0, 4)):
        loop.ahead_s += ahead_s
        loop.run(looked_after(source))
        assert len(server.asked) == count
    assert source.counters.failed_key_readings == 1
    for ahead_s, count in ((0.0, 5), (ASKED_LEAST_S - 1, 5), (2.0, 6)):
        loop.ahead_s += ahead_s
        loop.run(source.look_for("unknown"))
        assert len(server.asked) == count
    loop.close()


class Skipping(asyncio.SelectorEventLoop):
    """A loop whose clock a test can set forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s

    def run(self, what: Any) -> None:
        asyncio.set_event_loop(self)
        self.run_until_complete(what)


async def looked_after(source: KeySource) -> None:
    source.check()
    while source.is_reading:
        await asyncio.sleep(0.001)


def test_keys_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(Issuer().jwks())
    source = source_of(str(path))
    source.read_file()
    assert source.keys is not None and source.keys.knows("one")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "cannot be read: no such file"),
        (b"", "is no JSON"),
        (b"{}", "has no list 'keys'"),
        (b" " * (DOCUMENT_BYTES_MAX + 1), "which is the limit"),
    ],
)
def test_files_that_hold_no_keys(body: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(KeysUnusable, match=words):
        source_of(str(path)).read_file()


def test_a_device_is_no_file() -> None:
    with pytest.raises(KeysUnusable, match="not a regular file"):
        source_of("/dev/zero").read_file()
