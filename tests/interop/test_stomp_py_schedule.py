"""stomp.py against the real process: messages that are delivered later, or again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.support.process.stomp_py import VERSIONS, Client, Connect

Unique = Callable[[str], str]


def schedule(client: Client, destination: str, body: str, **asked: int | str) -> None:
    """Send and wait for the receipt.  asked: headers, in capitals those of AMQ_SCHEDULED_."""
    headers = {f"AMQ_SCHEDULED_{name}" if name.isupper() else name: str(value) for name, value in asked.items()}
    with client.receipt() as receipt:
        client.connection.send(destination, body, headers={"receipt": receipt, **headers})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_delay(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('q')}"
    client = connect(version)
    client.subscribe(queue)
    began = time.monotonic()
    schedule(client, queue, "later", DELAY=600, colour="red", persistent="true")
    client.send(queue, "now")
    got = {one.body: one for one in (client.message(), client.message())}
    assert time.monotonic() - began >= 0.6
    assert set(got) == {"now", "later"}
    later = got["later"]
    assert later.headers["colour"] == "red"
    assert later.headers["scheduledJobId"].startswith("ID:")
    assert later.headers["scheduledJobId"] != later.headers["message-id"]
    assert not [name for name in later.headers if name.startswith("AMQ_")]


@pytest.mark.parametrize("version", VERSIONS)
def test_repeats_name_one_schedule(version: str, connect: Connect, unique: Unique) -> None:
    topic = f"/topic/{unique('t')}"
    client = connect(version)
    client.subscribe(topic)
    schedule(client, topic, "again", DELAY=100, PERIOD=150, REPEAT=2)
    found = [client.message() for _ in range(3)]
    assert [one.body for one in found] == ["again"] * 3
    assert len({one.headers["message-id"] for one in found}) == 3
    assert len({one.headers["scheduledJobId"] for one in found}) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_schedules_at_its_commit(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('q')}"
    client = connect(version)
    client.subscribe(queue)
    for name, end in (("aborted", client.connection.abort), ("committed", client.connection.commit)):
        client.connection.begin(name)
        client.connection.send(queue, name, transaction=name, headers={"AMQ_SCHEDULED_DELAY": "200"})
        end(name)
    assert client.message().body == "committed"


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"AMQ_SCHEDULED_DELAY": "soon"}, "AMQ_SCHEDULED_DELAY"),
        ({"AMQ_SCHEDULED_CRON": "99 * * * *"}, "Bad minute"),
        ({"AMQ_SCHEDULED_DELAY": "1", "AMQ_SCHEDULED_PERIOD": "1"}, "schedule.min-period"),
    ],
)
def test_what_cannot_be_is_refused(headers: dict[str, str], word: str, connect: Connect, unique: Unique) -> None:
    client = connect("1.2")
    client.connection.send(f"/queue/{unique('q')}", "x", headers={**headers, "receipt": "r"})
    error = client.error()
    assert (error.headers["condition"], error.headers["receipt-id"]) == ("invalid-option", "r")
    assert word in error.headers["message"] + str(error.body)
