"""The HTTP listener: health, metrics, stat, who may ask, from where."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from config.matching import BOTH, Pattern
from config.model import Endpoint, ServerConfig
from config.permissions import Permission
from config.scram import hash_password
from engine.errors import InvalidSelector
from engine.stats import BrokerStats
from engine.store.backup import BackupRefused
from engine.store.records import UnknownMessage
from gateway.counters import GatewayCounters
from gateway.questions import WrongQuestion
from gateway.security import Security
from gateway.store_tasks import TaskRefused
from gateway.store_view import question_of
from gateway.web.api import create_app, stat_document
from gateway.web.rates import Rates, RateSampler
from gateway.web.retry import RetrySource
from gateway.web.server import HttpServer
from gateway.web.source import StatsSource
from gateway.web.store import StoreSource
from gateway.web.why import Answer, WhySource
from tests.support.snapshots import broker, destination

OPEN = Security(ServerConfig())
GUARDED = Security(ServerConfig(users={"alice": tuple(hash_password("secret", 4096))}))


class Fixed(StatsSource):
    is_failed = False

    def __init__(self, stats: BrokerStats) -> None:
        self._stats = stats

    def stats(self) -> BrokerStats:
        assert not self.is_failed, "a broker that stands half-way is not asked"
        return self._stats

    def counters(self) -> GatewayCounters:
        return GatewayCounters()

    def has_failed(self) -> bool:
        return self.is_failed


class Knowing(WhySource):
    """Knows consumer 1, connection 2 and message ID:s-3."""

    def consumer(self, consumer_id: int) -> Answer | None:
        return Answer(["consumer 1: idle"], {"gate": "nothing-waiting"}) if consumer_id == 1 else None

    def producer(self, connection_id: int) -> Answer | None:
        return Answer(["connection 2: open"], {"reason": ""}) if connection_id == 2 else None

    async def message(self, message_id: str) -> Answer:
        if message_id != "ID:s-3":
            raise UnknownMessage(f"{message_id!r} is not of this store")
        return Answer(["message ID:s-3: sent"], {"events": []})

    def explain_consumer(self, consumer_id: int) -> dict[str, Any] | None:
        return {"what": "consumer 1", "settings": {}} if consumer_id == 1 else None

    def explain_destination(self, text: str, connection_id: int | None = None) -> dict[str, Any] | None:
        if "*" in text:
            raise ValueError(f"{text}: no wildcards")
        if connection_id not in (None, 2):
            return None
        return {"what": text if connection_id is None else f"{text} for connection {connection_id}", "settings": {}}


class Retrying(RetrySource):
    """Knows the queue ``dead``; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int, int]] = []
        self.is_stopped = False

    def start(self, queue: str, selector: str, rate: int, limit: int) -> int:
        if queue != "dead":
            raise LookupError(f"no queue {queue!r}")
        if selector == "bad":
            raise InvalidSelector("selector 'bad': nothing to compare")
        self.asked.append((queue, selector, rate, limit))
        return len(self.asked)

    def status(self, number: int) -> dict[str, object] | None:
        return {"moved": 3, "done": self.is_stopped} if 0 < number <= len(self.asked) else None

    def stop(self, number: int) -> None:
        self.is_stopped = True


class Storing(StoreSource):
    """Knows one message, ``ID:s-8``."""

    async def query(self, asked: Mapping[str, str]) -> dict[str, Any]:
        question = question_of(asked)
        if question.message_id != "ID:s-8":
            raise UnknownMessage("no such message")
        return {"messages": [{"id": "ID:s-8"}]}

    async def space(self, tells_why: bool) -> dict[str, Any]:
        return {"told_why": tells_why}

    async def dump(self, asked: Mapping[str, str]) -> dict[str, Any]:
        if "x" in asked:
            raise WrongQuestion("'x' is not known")
        return {"records": [], "next_from": 0}

    def start(self, what: str) -> dict[str, Any]:
        if what == "rebuild":
            raise TaskRefused("task 1 on the store is under way")
        return {"task": 1, "done": False}

    def status(self, number: int) -> dict[str, Any] | None:
        return {"task": 1, "done": True} if number == 1 else None

    async def stop(self) -> None:
        return None

    async def backup(self, directory: str) -> dict[str, Any]:
        if directory == "full":
            raise BackupRefused("full is there and not empty")
        if "\0" in directory:
            raise ValueError("embedded null byte")
        return {"directory": directory}


@asynccontextmanager
async def serving(
    stats: BrokerStats | None = None, security: Security = OPEN, host: str = "localhost"
) -> AsyncIterator[Callable[..., Awaitable[ClientResponse]]]:
    application = create_app(
        Fixed(stats if stats is not None else broker(destination("orders"))),
        Knowing(),
        Retrying(),
        Storing(),
        security,
        host,
    )
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        yield client.get


def basic(login: str, passcode: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{login}:{passcode}".encode()).decode()}


async def test_healthz() -> None:
    async with serving() as get:
        response = await get("/healthz")
        assert (response.status, await response.text()) == (200, "ok\n")


async def test_healthz_says_why_not() -> None:
    async with serving(broker(accepting=False)) as get:
        response = await get("/healthz")
        assert (response.status, await response.text()) == (503, "unavailable: disk full at commitlog/0\n")


async def test_healthz_tells_of_space_that_is_not_freed() -> None:
    found = broker()
    found = replace(found, store=replace(found.store, retention="space waits for an export"))
    async with serving(found) as get:
        response = await get("/healthz")
        assert (response.status, await response.text()) == (200, "ok\nwarning: space waits for an export\n")
        assert "penstock_retention_held 1.0" in await (await get("/metrics")).text()
    async with serving(found, GUARDED) as get:
        assert await (await get("/healthz")).text() == "ok\n"


async def test_healthz_with_users_is_open_and_says_no_more_than_that() -> None:
    async with serving(broker(accepting=False), GUARDED) as get:
        response = await get("/healthz")
        assert (response.status, await response.text()) == (503, "unavailable\n")


async def test_metrics() -> None:
    async with serving() as get:
        response = await get("/metrics")
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        assert 'penstock_destination_depth{destination="orders",kind="queue"} 6.0' in await response.text()


async def test_stat() -> None:
    async with serving(broker(destination("orders"), blocked={5: "memory limit"})) as get:
        response = await get("/api/stat")
        document = await response.json()
    assert document["destinations"][0]["name"] == "orders"
    assert document["destinations"][0]["depth"] == 6
    assert document["consumers"][0]["prefetch"] == 1000
    expected = {"append_offset": 4096, "durable_offset": 2048, "is_accepting": True, "reason": "", "retention": ""}
    assert document["store"] == expected
    assert document["connections"] == 8
    assert document["blocked_producers"] == [{"connection_id": 5, "reason": "memory limit", "waited_ms": 1_500}]
    assert document["addresses"][0]["used_bytes"] == 120


async def test_answers_are_neither_kept_nor_guessed_at() -> None:
    async with serving() as get:
        response = await get("/api/stat")
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/api", "/api/stat/x", "/metrics/"])
async def test_other_paths_are_not_found(path: str) -> None:
    async with serving() as get:
        assert (await get(path)).status == 404


@pytest.mark.parametrize("path", ["/metrics", "/api/stat", "/nothing"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        (basic("alice", "wrong"), 401),
        (basic("nobody", "secret"), 401),
        ({"Authorization": "Basic !!!"}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"\xff:\xff").decode()}, 401),
        ({"Authorization": "Bearer secret"}, 401),
        (basic("alice", "secret"), 200),
        ({"Authorization": basic("alice", "secret")["Authorization"].replace("Basic", "bAsIc")}, 200),
    ],
)
async def test_credentials(path: str, headers: dict[str, str], status: int) -> None:
    async with serving(security=GUARDED) as get:
        response = await get(path, headers=headers)
        assert response.status == (404 if status == 200 and path == "/nothing" else status)
        assert ("WWW-Authenticate" in response.headers) is (status == 401)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8161", "[::1]:8161", "localhost", "LocalHost:1", "10.1.2.3", "gw.example.com:8161"]
)
async def test_own_hosts(host: str) -> None:
    async with serving(host="GW.example.com") as get:
        assert (await get("/healthz", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "a@127.0.0.1",
        "[::1",
        "localhost.",
        "0x7f.1",
    ],
)
async def test_other_hosts_are_refused(host: str) -> None:
    async with serving(host="gw.example.com") as get:
        response = await get("/api/stat", headers={"Host": host})
        assert response.status == 403
        assert "allowed is a literal IP address, localhost or gw.example.com" in await response.text()


async def test_a_foreign_host_is_refused_before_its_password_is_looked_at() -> None:
    async with serving(security=GUARDED) as get:
        response = await get("/api/stat", headers={"Host": "evil.example", **basic("alice", "secret")})
        assert response.status == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8161", 200),
        ("http://127.0.0.1:9999", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("http://[::1", 403),
    ],
)
async def test_origin_must_be_our_own(origin: str, status: int) -> None:
    async with serving() as get:
        response = await get("/api/stat", headers={"Host": "127.0.0.1:8161", "Origin": origin})
        assert response.status == status
        if status == 403:
            assert "Origin is" in await response.text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_the_listener_says_which_port_it_got_and_stops(host: str) -> None:
    server = await HttpServer.start(Endpoint("http", host, 0), Fixed(broker()), Knowing(), Retrying(), Storing(), OPEN)
    assert server.endpoint.port > 0
    async with ClientSession() as session, session.get(f"{server.endpoint}/healthz") as response:
        assert response.status == 200
    await server.stop()


async def test_a_port_in_use_is_an_error_of_the_start() -> None:
    first = await HttpServer.start(
        Endpoint("http", "127.0.0.1", 0), Fixed(broker()), Knowing(), Retrying(), Storing(), OPEN
    )
    try:
        with pytest.raises(OSError, match="address already in use"):
            await HttpServer.start(first.endpoint, Fixed(broker()), Knowing(), Retrying(), Storing(), OPEN)
    finally:
        await first.stop()


def rates_after(*samples: tuple[float, BrokerStats]) -> RateSampler:
    sampler = RateSampler()
    for now_s, stats in samples:
        sampler.sample(stats, now_s)
    return sampler


def test_rates_are_per_second_between_the_last_two_samples() -> None:
    sampler = rates_after(
        (10.0, broker(destination("a", enqueued=0, acknowledged=0))),
        (11.0, broker(destination("a", enqueued=1000, acknowledged=10))),
        (13.0, broker(destination("a", enqueued=1500, acknowledged=10), destination("b", enqueued=8, acknowledged=2))),
    )
    assert sampler.rates_of("queue", "a") == Rates(250.0, 0.0, 0.0)
    assert sampler.rates_of("queue", "b") == Rates(4.0, 2.0, 1.0)
    assert sampler.rates_of("topic", "a") is None


def test_one_sample_gives_no_rate() -> None:
    sampler = rates_after((10.0, broker(destination("a"))))
    assert sampler.rates_of("queue", "a") is None
    document: dict[str, Any] = stat_document(broker(destination("a")), sampler)
    assert document["destinations"][0]["rates"] is None


def test_two_samples_at_the_same_moment_are_no_division_by_zero() -> None:
    sampler = rates_after((10.0, broker(destination("a"))), (10.0, broker(destination("a"))))
    assert sampler.rates_of("queue", "a") is None


def test_a_counter_that_began_anew_gives_no_negative_rate() -> None:
    sampler = rates_after((0.0, broker(destination("a", enqueued=100))), (1.0, broker(destination("a", enqueued=4))))
    rates = sampler.rates_of("queue", "a")
    assert rates is not None
    assert rates.enqueued == 0.0


def test_the_document_is_json() -> None:
    sampler = rates_after((0.0, broker(destination("a"))), (1.0, broker(destination("a"))))
    document = json.loads(json.dumps(stat_document(broker(destination("a")), sampler)))
    assert document["destinations"][0]["rates"] == {"enqueued": 0.0, "delivered": 0.0, "acknowledged": 0.0}


async def test_health_after_a_fault_of_the_gateway_itself() -> None:
    source = Fixed(broker())
    source.is_failed = True
    async with TestClient(
        TestServer(create_app(source, Knowing(), Retrying(), Storing(), OPEN), host="127.0.0.1")
    ) as client:
        response = await client.get("/healthz")
        assert (response.status, await response.text()) == (503, "unavailable: the gateway failed and stops\n")


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/api/why/consumer/1", 200, "consumer 1: idle"),
        ("/api/why/consumer/9", 404, "no consumer 9; 'penstock stat --json' lists them"),
        ("/api/why/consumer/x", 400, "consumer is 'x'; allowed is its number"),
        ("/api/why/producer/2", 200, "connection 2: open"),
        ("/api/why/producer/9", 404, "no connection 9"),
        ("/api/why/message/ID:s-3", 200, "message ID:s-3: sent"),
        ("/api/why/message/other", 404, "'other' is not of this store"),
    ],
)
async def test_why(path: str, status: int, expected: str) -> None:
    async with serving() as get:
        response = await get(path)
        assert response.status == status
        assert expected in await response.text()


async def test_a_retry_is_started_told_of_and_stopped() -> None:
    retries = Retrying()
    application = create_app(Fixed(broker()), Knowing(), retries, Storing(), OPEN)
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        response = await client.post("/api/retry", json={"queue": "dead", "filter": "a = 1", "rate": 5})
        assert (response.status, await response.json()) == (201, {"retry": 1, "moved": 3, "done": False})
        assert retries.asked == [("dead", "a = 1", 5, 0)]
        assert (await (await client.get("/api/retry/1")).json())["moved"] == 3
        assert (await (await client.delete("/api/retry/1")).json())["done"] is True
        assert (await client.get("/api/retry/9")).status == 404


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ("x", 400, "no JSON object with a text 'queue'"),
        ("{}", 400, "no JSON object with a text 'queue'"),
        ('{"queue": "dead", "speed": 1}', 400, "'speed' is not known; allowed are queue, filter, rate, limit"),
        ('{"queue": "dead", "rate": -1}', 400, "'rate' is -1; allowed is a whole number from 0"),
        ('{"queue": "dead", "limit": true}', 400, "'limit' is True"),
        ('{"queue": "dead", "filter": 1}', 400, "'filter' is no text"),
        ('{"queue": "dead", "filter": "bad"}', 400, "selector 'bad': nothing to compare"),
        ('{"queue": "other"}', 404, "no queue 'other'"),
    ],
)
async def test_what_is_wrong_with_a_retry_is_said(body: str, status: int, expected: str) -> None:
    application = create_app(Fixed(broker()), Knowing(), Retrying(), Storing(), OPEN)
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        response = await client.post("/api/retry", data=body)
        assert response.status == status
        assert expected in await response.text()


async def test_a_foreign_page_cannot_start_a_retry() -> None:
    application = create_app(Fixed(broker()), Knowing(), Retrying(), Storing(), OPEN)
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        response = await client.post("/api/retry", json={"queue": "dead"}, headers={"Origin": "http://evil.example"})
        assert response.status == 403


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("consumer/1", 200, "consumer 1"),
        ("consumer/2", 404, "no consumer 2"),
        ("consumer/x", 400, "consumer is 'x'; allowed is its number"),
        ("destination/a.b%3Fconsumer.priority=1", 200, "a.b?consumer.priority=1"),
        ("destination/topic%3A%2F%2Ft", 200, "topic://t"),
        ("destination/*", 400, "*: no wildcards"),
        ("destination/a?connection=2", 200, "a for connection 2"),
        ("destination/a?connection=3", 404, "no connection 3"),
        ("destination/a?connection=x", 400, "connection is 'x'; allowed is its number"),
    ],
)
async def test_explain(path: str, status: int, expected: str) -> None:
    application = create_app(Fixed(broker()), Knowing(), Retrying(), Storing(), OPEN)
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        response = await client.get(URL(f"/api/explain/{path}", encoded=True))
        assert response.status == status
        assert expected in await response.text()


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("query?id=ID:s-8", 200, "ID:s-8"),
        ("query?id=ID:s-9", 404, "no such message"),
        ("query", 400, "asked for is nothing; allowed is an id, a key or a destination"),
        ("query?id=1&key=2", 400, "asked for is id and key"),
        ("query?ids=1", 400, "'ids' is not known; allowed are id, key"),
        ("query?key=1&limit=x", 400, "limit is 'x'; allowed is a whole number"),
        ("query?key=1&limit=0", 400, "limit is 0; allowed is 1 to 10000"),
        ("query?key=1&from=yesterday", 400, "from is 'yesterday'; allowed are milliseconds"),
        ("query?key=1&body=maybe", 400, "body is 'maybe'; allowed is true or false"),
        ("dump", 200, '"next_from": 0'),
        ("dump?x=1", 400, "'x' is not known"),
        ("verify/1", 200, '"done": true'),
        ("rebuild/2", 404, "no task 2"),
        ("du", 200, '"told_why": false'),
        ("du?why=true", 200, '"told_why": true'),
        ("du?why=x", 400, "why is 'x'; allowed is true or false"),
    ],
)
async def test_questions_to_the_store(path: str, status: int, expected: str) -> None:
    async with serving() as get:
        response = await get(f"/api/store/{path}")
        assert response.status == status
        assert expected in await response.text()


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ('{"directory": "new"}', 200, "new"),
        ('{"directory": "full"}', 409, "full is there and not empty"),
        ('{"directory": "a\\u0000b"}', 400, "directory is 'a\\x00b'; allowed is a path"),
        ("{}", 400, "no JSON object with a text 'directory' alone"),
        ("x", 400, "no JSON object"),
        ('{"directory": "new", "speed": 1}', 400, "alone"),
    ],
)
async def test_a_backup_is_asked_for(body: str, status: int, expected: str) -> None:
    application = create_app(Fixed(broker()), Knowing(), Retrying(), Storing(), OPEN)
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        response = await client.post("/api/store/backup", data=body)
        assert response.status == status
        assert expected in await response.text()


async def test_tasks_on_the_store_begin() -> None:
    application = create_app(Fixed(broker()), Knowing(), Retrying(), Storing(), OPEN)
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        for what, status, expected in (("verify", 201, '"task": 1'), ("rebuild", 409, "under way"), ("other", 404, "")):
            response = await client.post(f"/api/store/{what}", data="{}")
            assert response.status == status
            assert expected in await response.text()


def _permitted(pattern: str, login: str) -> Security:
    """Return a gateway with two users, of which one reads everything and the other manages everything."""
    grants = {"read": frozenset({"readers"}), "delete": frozenset({"managers"})}
    users = {name: tuple(hash_password("secret", 4096)) for name in ("alice", "bob")}
    return Security(
        ServerConfig(
            users=users if login else {},
            groups={"alice": frozenset({"readers"}), "bob": frozenset({"managers"})},
            permissions=(Permission(Pattern.parse(pattern), BOTH, grants),),  # type: ignore[arg-type]
        )
    )


@pytest.mark.parametrize(
    ("login", "pattern", "path", "is_post", "is_allowed"),
    [
        ("alice", ">", "/api/store/dump", False, True),
        ("alice", "#", "/api/store/query?id=ID:s-8", False, True),
        ("alice", "orders.>", "/api/store/dump", False, False),
        ("bob", ">", "/api/store/dump", False, False),
        ("bob", ">", "/api/store/backup", True, True),
        ("bob", "*", "/api/store/backup", True, True),
        ("bob", ">", "/api/store/verify", True, True),
        ("bob", "orders.>", "/api/store/verify", True, False),
        ("alice", ">", "/api/store/backup", True, False),
        ("alice", ">", "/api/store/rebuild", True, False),
        ("alice", ">", "/api/retry", True, False),
        ("alice", ">", "/api/schedule", False, True),
        ("alice", "orders.>", "/api/schedule", False, False),
        ("alice", ">", "/api/schedule/cancel", True, False),
        ("bob", ">", "/api/schedule/cancel", True, True),
        ("bob", "orders.>", "/api/store/du", False, True),
        ("bob", "orders.>", "/api/stat", False, True),
        ("", ">", "/api/store/dump", False, False),
    ],
)
async def test_what_concerns_all_destinations_needs_a_permission_for_all(
    login: str, pattern: str, path: str, is_post: bool, is_allowed: bool
) -> None:
    application = create_app(Fixed(broker()), Knowing(), Retrying(), Storing(), _permitted(pattern, login))
    headers = basic(login, "secret") if login else {}
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        if is_post:
            response = await client.post(path, data='{"directory": "new"}', headers=headers)
        else:
            response = await client.get(path, headers=headers)
        assert (response.status != 403) is is_allowed
        if not is_allowed:
            assert "for all destinations" in await response.text()
