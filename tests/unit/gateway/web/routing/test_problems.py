"""Every error is a problem document (RFC 9457), also what is no request of the API and what is a defect of ours."""

from __future__ import annotations

import asyncio
import gc
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import ClientSession, web

from engine.values.errors import (
    AccessDenied,
    AddressFull,
    ConnectionForced,
    EngineError,
    LimitReached,
    PenstockError,
    StoreError,
    UserGone,
)
from gateway.process.log_lines import LINES_MAX
from gateway.web.connections.sockets import SocketRoute
from gateway.web.limits.loop_share import LoopShare
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.rest.requests import NotNow
from gateway.web.routing.problems import CONTENT_TYPE, Problem, refusal
from gateway.web.server import Requests
from tests.support.connection_world import Transport
from tests.support.uncollected import uncollected
from tests.support.web import GUARDED, Knowing, listening, serving

LIMIT_S = 30.0  # only a defect takes so long
MEMBERS = {"type", "title", "status", "detail", "condition"}


class Broken(Knowing):
    """Fails with a defect at each question about a consumer."""

    def explain_consumer(self, consumer_id: int) -> dict[str, Any] | None:
        raise KeyError("a secret of the gateway")


def document(status: int, octets: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(octets)
    assert set(found) == MEMBERS
    assert found["status"] == status
    assert found["type"] == "about:blank"
    return found


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "condition", "text"),
    [
        ("GET", "/nowhere", "", 404, "not-found", "GET /nowhere is not a path of this gateway"),
        ("GET", "/console/../x<script>", "", 404, "not-found", "/x<script>"),
        ("PUT", "/api/stat", "", 405, "method-not-allowed", "method is PUT /api/stat; allowed is GET, HEAD"),
        ("GET", "/api/why/consumer/x", "", 400, "invalid-request", "id is 'x'; allowed is a whole number"),
        ("GET", "/api/why/consumer/9", "", 404, "not-found", "no consumer 9"),
        ("POST", "/api/retry", "[" * 40_000, 400, "invalid-request", "the body is not a JSON object"),
        ("POST", "/api/retry", '{"a": [{"queue": 1, "queue": 2}]}', 400, "invalid-request", "'queue' twice"),
        ("POST", "/api/retry", "x" * 70_000, 413, "body-too-large", "maximum request body size 65536 exceeded"),
        ("POST", "/api/retry", '{"queue": "dead", "filter": "bad"}', 400, "invalid-selector", "nothing to compare"),
        ("POST", "/api/store/rebuild", "", 409, "conflict", "task 1 on the store is under way"),
        ("GET", "/api/store/query?id=x", "", 404, "unknown-message", "no such message"),
    ],
)
async def test_errors_of_requests(method: str, path: str, body: str, status: int, condition: str, text: str) -> None:
    async with serving() as client:
        response = await client.request(method, path, data=body)
        found = document(status, await response.read())
        assert (response.status, response.content_type) == (status, CONTENT_TYPE)
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Server"] == "Penstock"
        assert (found["condition"], text in found["detail"]) == (condition, True), found
        assert ("Allow" in response.headers) is (status == 405)


async def test_refusals_before_a_path_is_looked_at() -> None:
    async with serving(login_check=GUARDED) as client:
        foreign = await client.get("/api/stat", headers={"Host": "evil.example"})
        assert document(403, await foreign.read())["detail"].startswith("Host is 'evil.example'; allowed is")
        unknown = await client.get("/api/stat")
        assert document(401, await unknown.read())["condition"] == "login-refused"
        assert "Basic" in unknown.headers["WWW-Authenticate"]


async def test_a_defect_shows_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(why=Broken()) as client:
        response = await client.get("/api/explain/consumer/1", headers={"Accept": "text/html"})
        octets = await response.read()
        assert document(500, octets)["condition"] == "internal-error"
        assert b"secret" not in octets and b"Traceback" not in octets
    assert "a secret of the gateway" in caplog.text


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity, gzip"])
async def test_a_compressed_body_is_refused(encoding: str) -> None:
    async with serving() as client:
        response = await client.post("/api/retry", data=zlib.compress(b"x"), headers={"Content-Encoding": encoding})
        found = document(415, await response.read())
        assert found["detail"] == f"Content-Encoding is '{encoding}'; allowed is a body that is not compressed"
        assert response.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"POST /api/retry HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\nContent-Length: 2\r\n\r\n{}", 417),
    ],
)
async def test_what_is_no_request(octets: bytes, status: int) -> None:
    async with listening() as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(octets)
        head, _, body = (await reader.readuntil(b"}")).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 %d" % status) or head.startswith(b"HTTP/1.0 %d" % status), head
        assert CONTENT_TYPE.encode() in head and b"nosniff" in head
        assert b"Server: Penstock\r\n" in head + b"\r\n"
        document(status, body)


async def test_a_redirection_is_no_error() -> None:
    async with (
        listening() as endpoint,
        ClientSession() as session,
        session.get(f"{endpoint}/", allow_redirects=False) as response,
    ):
        assert (response.status, response.headers["Location"]) == (302, "/console/")


@pytest.mark.parametrize(
    ("error", "status", "condition"),
    [
        (AccessDenied("no"), 403, "access-denied"),
        (LimitReached("too many"), 429, "limit-reached"),
        (AddressFull("full"), 507, "address-full"),
        (ConnectionForced("closed by an operator"), 503, "connection-forced"),
        (UserGone("removed"), 403, "connection-forced"),
        (EngineError("odd"), 400, "internal-error"),
        (StoreError("disk"), 507, "store-error"),
        (PenstockError("ours"), 500, "internal-error"),
        (LookupError("no queue 'x'"), 404, "not-found"),
        (NotNow("full"), 503, "blocked"),
    ],
)
def test_refusals_of_the_engine(error: Exception, status: int, condition: str) -> None:
    problem = refusal(error)
    assert problem is not None
    assert problem.headers == ({"Retry-After": "1"} if status == 503 else {})
    assert (problem.status, problem.condition, problem.detail) == (status, condition, str(error.args[0]))


@pytest.mark.parametrize("defect", [KeyError("a"), IndexError(), ValueError("b"), OSError()])
def test_a_defect_is_no_refusal(defect: Exception) -> None:
    assert refusal(defect) is None


def test_a_long_detail_is_cut_and_any_character_can_be_shown() -> None:
    answer = Problem(400, "\ud800" * 5_000).answer()
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    assert len(json.loads(answer.body)["detail"]) == 2_000


async def test_a_client_that_leaves_within_a_request_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as endpoint:
        for _ in range(3):
            _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writer.write(b"POST /api/retry HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
            await writer.drain()
            await asyncio.sleep(0.05)  # its head is taken
            writer.close()
            await writer.wait_closed()
        async with ClientSession() as session, session.get(f"{endpoint}/healthz") as response:
            assert response.status == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_compressed_body_is_not_inflated(caplog: pytest.LogCaptureFixture) -> None:
    """Not even that of a client that has no login: a body that is none would be an error."""
    async with listening() as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        head = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Encoding: gzip\r\n"
        writer.write(head + b"Content-Length: 4\r\n\r\nxxxx")
        assert b" 415 " in await reader.readline()
        await reader.read()
        writer.close()
    assert caplog.records == []


async def test_one_address_provokes_so_many_lines_about_defects(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(why=Broken()) as endpoint, ClientSession() as session:
        for _ in range(LINES_MAX + 5):
            async with session.get(f"{endpoint}/api/explain/consumer/1") as response:
                assert response.status == 500
    assert len(caplog.records) == LINES_MAX
    assert caplog.records[0].getMessage().startswith("127.0.0.1: GET /api/explain/consumer/1: a defect")


async def test_a_connection_that_is_lost_as_soon_as_it_is_made_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    runner = web.AppRunner(web.Application())
    await runner.setup()
    assert runner.server is not None
    with uncollected():
        requests = Requests(LoopShare(), RequestMemory(), runner.server, loop=asyncio.get_running_loop())
        requests.connection_made(Transport(True, None))
        requests.connection_lost(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del requests
        gc.collect()
    await runner.cleanup()
    assert caplog.records == []


CHUNKED = b"POST /api/retry HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "octets",
    [
        b"POST /api/retry HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" + b"x" * 50_000,
        CHUNKED + b"C350\r\n" + b"x" * 40_000,
        CHUNKED + b"C350\r\n" + b"x" * 50_000 + b"\r\nZZ\r\n",
        b"\0\1GARBAGE " + b"x" * 50_000 + b"\r\n\r\n",
    ],
)
async def test_a_request_that_is_cut_off_leaves_nothing_to_the_garbage_collector(octets: bytes) -> None:
    """The collector runs rarely, and hardly ever over what has lived for a while: an upload may be a megabyte."""
    async with listening() as endpoint:
        with uncollected():
            for _ in range(3):
                _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
                writer.write(octets)
                await writer.drain()
                await _until(lambda: _requests() > 0)
                await asyncio.sleep(0.01)
                writer.transport.abort()
            await _until(lambda: _requests() == 0)


def _requests() -> int:
    """Return how many connections exist."""
    return sum(isinstance(one, Requests) for one in gc.get_objects())


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("key", [b"\xff", b"=", b""])
async def test_a_key_of_a_websocket_that_is_no_base64(key: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(sockets=SocketRoute(_nobody)) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")
        writer.write(b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 400 Bad Request\r\n"
        writer.close()
        await writer.wait_closed()
    assert caplog.records == []


async def test_an_unknown_sub_protocol_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        listening(sockets=SocketRoute(_nobody)) as endpoint,
        ClientSession() as session,
        session.ws_connect(f"{endpoint}/", protocols=["none"]) as socket,
    ):
        assert "no sub-protocol is known" in str((await socket.receive()).extra)
    assert caplog.records == []


def _nobody(address: str) -> None:
    return None
