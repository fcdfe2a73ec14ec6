"""What is asked over HTTP of consumers, messages, dead letters and the store."""

from __future__ import annotations

import pytest
from yarl import URL

from tests.support.web import Retrying, serving


async def check(method: str, path: str, body: str, status: int, expected: str) -> None:
    """Ask, and look for a text in the answer."""
    async with serving() as client:
        response = await client.request(method, URL(f"/api/{path}", encoded=True), data=body)
        assert response.status == status
        assert expected in await response.text()


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("why/consumer/1", 200, "consumer 1: idle"),
        ("why/consumer/9", 404, "no consumer 9; 'penstock stat --json' lists them"),
        ("why/consumer/x", 400, "id is 'x'; allowed is a whole number"),
        ("why/producer/2", 200, "connection 2: open"),
        ("why/producer/9", 404, "no connection 9"),
        ("why/message/ID:s-3", 200, "message ID:s-3: sent"),
        ("why/message/early", 404, '"before": 4096'),
        ("why/message/other", 404, "'other' is not of this store"),
    ],
)
async def test_why(path: str, status: int, expected: str) -> None:
    await check("GET", path, "", status, expected)


async def test_a_retry_is_started_told_of_and_stopped() -> None:
    retries = Retrying()
    async with serving(retries=retries) as client:
        response = await client.post("/api/retry", json={"queue": "dead", "filter": "a = 1", "rate": 5})
        assert (response.status, await response.json()) == (201, {"retry": 1, "moved": 3, "done": False})
        assert retries.asked == [("dead", "a = 1", 5, 0)]
        assert (await (await client.get("/api/retry/1")).json())["moved"] == 3
        assert (await (await client.delete("/api/retry/1")).json())["done"] is True
        assert (await client.get("/api/retry/9")).status == 404


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ("x", 400, "the body is not a JSON object"),
        ("[" * 50_000, 400, "the body is not a JSON object"),
        ("{}", 400, "member queue is missing; allowed is a text"),
        ('{"queue": "dead", "speed": 1}', 400, "'speed' is not known; allowed are queue, filter, rate, limit"),
        ('{"queue": "dead", "rate": -1}', 400, "rate is -1; allowed is a whole number from 0"),
        ('{"queue": "dead", "limit": true}', 400, "limit is true; allowed is a whole number"),
        ('{"queue": "dead", "filter": 1}', 400, "filter is 1; allowed is a JMS selector"),
        ('{"queue": "dead", "filter": "bad"}', 400, "selector 'bad': nothing to compare"),
        ('{"queue": "other"}', 404, "no queue 'other'"),
    ],
)
async def test_what_is_wrong_with_a_retry_is_said(body: str, status: int, expected: str) -> None:
    await check("POST", "retry", body, status, expected)


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("consumer/1", 200, "consumer 1"),
        ("consumer/2", 404, "no consumer 2"),
        ("consumer/x", 400, "id is 'x'; allowed is a whole number"),
        ("destination/a.b%3Fconsumer.priority=1", 200, "a.b?consumer.priority=1"),
        ("destination/topic%3A%2F%2Ft", 200, "topic://t"),
        ("destination/*", 400, "*: no wildcards"),
        ("destination/a?connection=2", 200, "a for connection 2"),
        ("destination/a?connection=3", 404, "no connection 3"),
        ("destination/a?connection=x", 400, "connection is 'x'; allowed is a whole number"),
    ],
)
async def test_explain(path: str, status: int, expected: str) -> None:
    await check("GET", f"explain/{path}", "", status, expected)


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("query?id=ID:s-8", 200, "ID:s-8"),
        ("query?id=ID:s-9", 404, "no such message"),
        ("query", 400, "asked for is nothing; allowed is an id, a key or a destination"),
        ("query?id=1&key=2", 400, "asked for is id and key"),
        ("query?ids=1", 400, "'ids' is not known; allowed are id, key"),
        ("query?key=1&limit=x", 400, "limit is 'x'; allowed is a whole number"),
        ("query?key=1&limit=0", 400, "limit is '0'; allowed is a whole number from 1 to 10000"),
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
    await check("GET", f"store/{path}", "", status, expected)


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ('{"directory": "new"}', 200, "new"),
        ('{"directory": "full"}', 409, "full is there and not empty"),
        ('{"directory": "a\\u0000b"}', 400, r"directory is 'a\\x00b'; allowed is a path"),
        ("{}", 400, "member directory is missing; allowed is a text"),
        ("x", 400, "not a JSON object"),
        ('{"directory": "new", "speed": 1}', 400, "member 'speed' is not known; allowed are directory"),
    ],
)
async def test_a_backup_is_asked_for(body: str, status: int, expected: str) -> None:
    await check("POST", "store/backup", body, status, expected)


@pytest.mark.parametrize(
    ("what", "status", "expected"), [("verify", 201, '"task": 1'), ("rebuild", 409, "under way"), ("other", 404, "")]
)
async def test_tasks_on_the_store_begin(what: str, status: int, expected: str) -> None:
    await check("POST", f"store/{what}", "{}", status, expected)
