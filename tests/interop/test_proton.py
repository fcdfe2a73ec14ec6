"""python-qpid-proton, blocking, against the real process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")

from proton import ConnectionException, Message, int32, symbol, ulong
from proton.reactor import AtLeastOnce, AtMostOnce
from proton.utils import LinkDetached, SendException

from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.proton_peer import LIMIT_S, Connect, connections, is_empty

Unique = Callable[[str], str]


@pytest.fixture
def connect(shared_gateway: GatewayProcess) -> Iterator[Connect]:
    """A function that connects; connections are closed at the end of the test."""
    yield from connections(shared_gateway)


def receive(receiver: Any, timeout: float = LIMIT_S) -> Any:
    return receiver.receive(timeout=timeout)


def test_queue(connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"))
    for number in range(10):
        sender.send(Message(body=f"message {number}", durable=number % 2 == 0, properties={"n": number}))
    receiver = connection.create_receiver(unique("q"), credit=10)
    for number in range(10):
        message = receive(receiver)
        assert (message.body, message.properties, message.durable) == (
            f"message {number}",
            {"n": number},
            number % 2 == 0,
        )
        assert message.delivery_count == 0
        receiver.accept()


def test_a_message_arrives_as_it_left(connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"))
    sent = Message(
        id="ID:1",
        user_id=b"me",
        subject="type",
        reply_to="queue://answers",
        correlation_id=7,
        content_type=symbol("application/json"),
        group_id="g",
        priority=7,
        durable=True,
        annotations={symbol("x-opt-mine"): 5},
        properties={"text": "\u00e4", "long": 2**40, "double": 1.5, "yes": True},
        body={"list": [1, 2.5, None], "bytes": b"\x00\xff"},
    )
    sender.send(sent)
    receiver = connection.create_receiver(unique("q"))
    got = receive(receiver)
    for name in ("id", "user_id", "subject", "reply_to", "correlation_id", "content_type", "group_id", "priority"):
        assert getattr(got, name) == getattr(sent, name), name
    assert got.properties == sent.properties
    assert got.annotations == sent.annotations
    assert got.body == sent.body
    receiver.accept()


@pytest.mark.parametrize("size", [1_000, 131_072, 3_000_000])
def test_messages_of_many_frames(size: int, connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"))
    body = bytes(range(256)) * (size // 256 + 1)
    sender.send(Message(body=body[:size], durable=True))
    receiver = connection.create_receiver(unique("q"))
    assert receive(receiver).body == body[:size]
    receiver.accept()


def test_delayed_messages(connect: Connect, unique: Unique) -> None:
    connection = connect()
    assert connection.conn is not None
    assert symbol("DELAYED_DELIVERY") in connection.conn.remote_offered_capabilities
    sender = connection.create_sender(unique("q"))
    began = time.monotonic()
    sender.send(Message(body="later", annotations={symbol("x-opt-delivery-delay"): ulong(600)}, durable=True))
    repeated = {symbol("x-opt-delivery-period"): ulong(400), symbol("x-opt-delivery-repeat"): int32(1)}
    sender.send(Message(body="twice", annotations=repeated))
    sender.send(Message(body="now"))
    receiver = connection.create_receiver(unique("q"), credit=10)
    found: dict[str, list[Any]] = {"now": [], "later": [], "twice": []}
    for _ in range(4):
        message = receive(receiver)
        found[message.body].append(message)
        if message.body == "later":
            assert time.monotonic() - began >= 0.6
    assert time.monotonic() - began >= 0.8
    assert [len(ones) for ones in found.values()] == [1, 1, 2]
    first, second = (one.annotations["x-opt-scheduledJobId"] for one in found["twice"])
    assert first == second
    with pytest.raises(SendException):
        sender.send(Message(body="never", annotations={symbol("x-opt-delivery-cron"): "99 * * * *"}))


def test_released_comes_back_at_once_and_uncounted(connect: Connect, unique: Unique) -> None:
    connection = connect()
    connection.create_sender(unique("q")).send(Message(body="again"))
    receiver = connection.create_receiver(unique("q"))
    first = receive(receiver)
    assert (first.delivery_count, first.first_acquirer) == (0, False)  # the default of the standard
    receiver.release(delivered=False)
    second = receive(receiver)
    assert (second.body, second.delivery_count, second.first_acquirer) == ("again", 0, False)
    receiver.accept()
    assert is_empty(receiver)


def test_modified_counts_and_waits(start_gateway: StartGateway, connect: Connect) -> None:
    gateway = start_gateway(
        'addresses:\n  - match: "#"\n    redelivery: {maximum-redeliveries: 1, initial-redelivery-delay-ms: 100, '
        "redelivery-delay-ms: 100}\n"
    )
    connection = connect(gateway)
    connection.create_sender("orders").send(Message(body="poison", durable=True))
    receiver = connection.create_receiver("orders")
    for count in range(2):
        message = receive(receiver)
        assert message.delivery_count == count
        assert receiver.fetcher is not None
        receiver.fetcher.unsettled[0].local.failed = True
        receiver.release(delivered=True)
    assert is_empty(receiver)
    dead = connection.create_receiver("ActiveMQ.DLQ")
    message = receive(dead)
    assert message.body == "poison"
    assert message.annotations["x-opt-original-destination"] == "/queue/orders"
    dead.accept()


def test_rejected_is_a_dead_letter(start_gateway: StartGateway, connect: Connect) -> None:
    gateway = start_gateway()
    connection = connect(gateway)
    connection.create_sender("orders").send(Message(body="bad", durable=True))
    receiver = connection.create_receiver("orders")
    receive(receiver)
    receiver.reject()
    dead = connection.create_receiver("ActiveMQ.DLQ")
    assert receive(dead).body == "bad"
    dead.accept()
    assert is_empty(receiver)


def test_topic_gives_each_message_to_every_subscriber(connect: Connect, unique: Unique) -> None:
    address = f"topic://{unique('t')}"
    connection = connect()
    receivers = [connection.create_receiver(address, credit=5), connect().create_receiver(address, credit=5)]
    sender = connection.create_sender(address)
    for number in range(3):
        sender.send(Message(body=number))
    for receiver in receivers:
        assert [receive(receiver).body for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("options", [AtMostOnce(), AtLeastOnce()])
def test_settled_and_unsettled(options: Any, connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"), options=options)
    for number in range(3):
        sender.send(Message(body=number))
    receiver = connection.create_receiver(unique("q"), credit=3, options=options)
    assert [receive(receiver).body for _ in range(3)] == [0, 1, 2]


def test_relay_sends_where_each_message_says(connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(None)
    for name in ("a", "b"):
        sender.send(Message(address=unique(name), body=name))
    for name in ("a", "b"):
        assert receive(connection.create_receiver(unique(name))).body == name
    with pytest.raises(SendException):
        sender.send(Message(body="to nobody"))
    sender.send(Message(address=unique("a"), body="the link has survived"))


def test_a_refused_link_says_why(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(LinkDetached, match="not-found"):
        connection.create_sender("no*such")


def test_users_log_in_by_every_mechanism(start_gateway: StartGateway, connect: Connect) -> None:
    from config.scram import hash_password

    verifiers = "".join(f"\n      - {one}" for one in hash_password("secret", 4096))
    gateway = start_gateway(f"users:\n  alice:\n    verifiers:{verifiers}\n")
    for mechanism in ("PLAIN", ""):
        connection = connect(gateway, "alice:secret@", allowed_mechs=mechanism or None)
        connection.create_sender("q").send(Message(body=mechanism))
    with pytest.raises(ConnectionException):
        connect(gateway, "alice:wrong@", allowed_mechs="PLAIN")
    with pytest.raises(ConnectionException):
        connect(gateway)


def test_idle_connections_stay(connect: Connect, unique: Unique) -> None:
    connection = connect(heartbeat=1.0)
    sender = connection.create_sender(unique("q"))
    receiver = connection.create_receiver(unique("q"))
    for _ in range(6):
        assert is_empty(receiver)
    sender.send(Message(body="still here"))
    assert receive(receiver).body == "still here"


def test_the_schedule_is_looked_after_by_messages(connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"))
    for body in ("first", "second"):
        sender.send(Message(body=body, properties={"AMQ_SCHEDULED_DELAY": 3_600_000, "mine": 7}))
    manager = connection.create_sender("topic://ActiveMQ.Scheduler.Management")
    answers = connection.create_receiver(None, dynamic=True, credit=10)
    for reply_to in (answers.link.remote_source.address, unique("answers")):
        receiver = answers if reply_to == answers.link.remote_source.address else connection.create_receiver(reply_to)
        manager.send(Message(reply_to=reply_to, properties={"AMQ_SCHEDULER_ACTION": "BROWSE"}))
        found: list[Any] = []
        while len(found) < 2:
            one = receive(receiver)
            receiver.accept()
            if one.annotations["x-opt-original-destination"] == f"/queue/{unique('q')}":
                found.append(one)
        assert [one.body for one in found] == ["first", "second"]
        assert all(one.properties["mine"] == 7 and int(one.properties["AMQ_SCHEDULED_TIME"]) for one in found)
    for one in found:
        asked = {"AMQ_SCHEDULER_ACTION": "REMOVE", "scheduledJobId": one.properties["scheduledJobId"]}
        manager.send(Message(properties=asked))
    sender.send(Message(body="third", properties={"AMQ_SCHEDULED_DELAY": 3_600_000}))
    manager.send(Message(reply_to=answers.link.remote_source.address, properties={"AMQ_SCHEDULER_ACTION": "BROWSE"}))
    while (one := receive(answers)).annotations["x-opt-original-destination"] != f"/queue/{unique('q')}":
        answers.accept()  # of other tests
    assert one.body == "third"
    with pytest.raises(SendException):
        manager.send(Message(properties={"AMQ_SCHEDULER_ACTION": "STOP"}))


def test_what_is_delivered_names_its_schedule_where_jms_clients_see_it(connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"))
    sender.send(Message(body="a", properties={"AMQ_SCHEDULED_DELAY": 50, "mine": 7}, subject="s"))
    sender.send(Message(body="b", annotations={symbol("x-opt-delivery-delay"): 50}))
    receiver = connection.create_receiver(unique("q"), credit=2)
    first, second = receive(receiver), receive(receiver)
    assert (first.body, first.subject, first.properties["mine"]) == ("a", "s", 7)
    assert second.body == "b"
    for one in (first, second):
        assert one.properties["scheduledJobId"] == one.annotations["x-opt-scheduledJobId"]
        assert one.properties["scheduledJobId"].startswith("ID:")
