"""The bridge's table of deliveries beside what ``penstock why`` says, after clients of several kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")
pytest.importorskip("pyarrow")

from proton import Delivery, Message

from tests.support.config import configurations
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.proton_peer import LIMIT_S, Connect, connections
from tests.support.process.stomp_py import Client, Received
from tests.support.store.lake_rows import lake_rows

Unique = Callable[[str], str]
Row = dict[str, Any]


@pytest.fixture
def gateway(start_gateway: StartGateway) -> GatewayProcess:
    """A gateway of its own: messages are tried again after 20 ms, once; expired ones become dead letters."""
    return start_gateway(
        configurations.quick_redelivery(maximum_redeliveries=1) + "    dead-letters:\n      process-expired: true\n"
    )


@pytest.fixture
def connect_amqp(gateway: GatewayProcess) -> Iterator[Connect]:
    yield from connections(gateway)


def ends(rows: list[Row], body: str) -> list[tuple[Any, ...]]:
    return [
        (row["outcome"], row["cause"], row["attempt"], row["client_id"], row["subscription"])
        for row in rows
        if row["body"] == body
    ]


def test_rows_are_what_clients_did_and_why_says(gateway: GatewayProcess, connect_amqp: Connect, unique: Unique) -> None:
    queue, topic = unique("orders"), unique("news")
    sender = Client(gateway, "1.2").connect()
    archivist = Client(gateway, "1.2").connect(**{"client-id": "archivist"})
    archivist.subscribe(f"/topic/{topic}", "client-individual", **{"activemq.subscriptionName": "archive"})
    sender.send(f"/topic/{topic}", "news")
    archivist.ack(archivist.message())

    worker = Client(gateway, "1.2").connect(**{"client-id": "worker"})
    worker.subscribe(f"/queue/{queue}", "client-individual", "s-1", **{"activemq.prefetchSize": "1"})
    sender.send(f"/queue/{queue}", "settled")
    worker.ack(worker.message())
    sender.send(f"/queue/{queue}", "poison")
    worker.nack(worker.message())
    worker.nack(worker.message())
    sender.send(f"/queue/{queue}", "transacted")
    with worker.receipt() as receipt:
        worker.connection.begin(transaction="t-1", headers={"receipt": receipt})
    worker.ack(worker.message(), "t-1")
    with worker.receipt() as receipt:
        worker.connection.commit(transaction="t-1", headers={"receipt": receipt})
    sender.send(f"/queue/{queue}", "lost")
    assert worker.message().body == "lost"
    worker.drop()
    receiver = connect_amqp(gateway, client_id="heir").create_receiver(queue, credit=1)
    assert bytes(receiver.receive(timeout=LIMIT_S).body) == b"lost"
    receiver.accept()
    connect_amqp(gateway).create_sender(queue).send(Message(durable=True, body="refused"))
    assert receiver.receive(timeout=LIMIT_S).body == "refused"
    receiver.settle(Delivery.REJECTED)
    receiver.connection.close()
    sender.send(f"/queue/{queue}", "late", expires="1000")  # one second after the epoch
    sender.send(f"/queue/{queue}", "waiting")
    looking = Client(gateway, "1.2").connect()
    looking.subscribe(f"/queue/{queue}", "client-individual")
    assert looking.message().body == "waiting"
    looking.close()  # an orderly close counts no attempt
    undertaker = Client(gateway, "1.2").connect()
    undertaker.subscribe("/queue/ActiveMQ.DLQ", "client-individual")
    dead = [undertaker.message() for _ in range(3)]
    sender.send(f"/queue/{queue}", "last")  # its receipt stands for all before

    sent = {row["log_offset"]: row for row in lake_rows(gateway.data, ">")}
    rows = lake_rows(gateway.data, ">", "deliveries")
    for row in rows:
        row["body"] = sent[row["message_offset"]]["body_text"]
        assert row["address"] is None or row["address"].startswith("127.0.0.1:")
    assert ends(rows, "news") == [("acknowledged", None, 1, "archivist", "archivist:archive")]
    assert ends(rows, "settled") == [("acknowledged", None, 1, "worker", None)]
    assert ends(rows, "poison") == [
        ("failed", "nack", 1, "worker", None),
        ("dead-lettered", "exhausted", 2, "worker", None),
    ]
    assert ends(rows, "transacted") == [("acknowledged", None, 1, "worker", None)]
    assert ends(rows, "lost") == [
        ("failed", "connection-lost", 1, "worker", None),
        ("acknowledged", None, 2, "heir", None),
    ]
    assert ends(rows, "refused") == [("dead-lettered", "rejected", 1, "heir", None)]
    assert ends(rows, "late") == [("expired", "expired", None, None, None)]
    assert ends(rows, "waiting") == []
    assert {row["subscription_id"] for row in rows if row["client_id"] == "worker"} == {"s-1"}
    for message in sent.values():
        assert [told(row) for row in rows if row["message_id"] == message["message_id"]] == events(gateway, message)
    check_dead_letters(lake_rows(gateway.data, ">", "dead_letters"), sent, dead)
    for client in (sender, archivist, undertaker):
        client.close()


def check_dead_letters(rows: list[Row], sent: dict[int, Row], dead: list[Received]) -> None:
    """Compare the table with what a consumer of the dead-letter queue gets."""
    ids = {row["body_text"]: row["message_id"] for row in sent.values() if not row["dead_letter"]}
    for row, got in zip(rows, dead, strict=True):
        headers = got.headers
        assert row["body_text"] == got.body
        assert row["original_message_id"] == headers["originalMessageId"] == ids[got.body]
        assert row["original_destination"].replace("queue://", "/queue/") == headers["original-destination"]
        assert (row["failure"], row["last_consumer"]) == (
            headers["dlqDeliveryFailureCause"],
            headers.get("dlqConsumer"),
        )
        assert row["failed_attempts"] == int(headers["originalDeliveryCount"])
        for column, header in (("first_failure", "dlqFirstFailureTime"), ("last_failure", "dlqLastFailureTime")):
            time = row[column]
            assert (time is None) == (header not in headers)
            assert time is None or round(time.timestamp() * 1000) == int(headers[header])
        assert row["cause"] == headers.get("dlqCause", "expired")
        assert (row["delivery_state"], row["original_subscription"], row["retry_count"]) == ("pending", None, None)


def told(row: Row) -> tuple[Any, ...]:
    took_ms = round(1000 * (row["store_time"] - row["message_time"]).total_seconds())
    assert row["time_in_queue_ms"] == took_ms
    return (row["log_offset"], row["outcome"], row["cause"] or "none", row["client_id"], row["address"], row["login"])


def events(gateway: GatewayProcess, message: Row) -> list[tuple[Any, ...]]:
    """Return the same as the gateway says it of one message."""
    life = gateway.get_json(f"/api/why/message/{quote(message['message_id'])}")
    return [
        (
            event["offset"],
            event["outcome"] or event["kind"],
            event["cause"],
            *(event["consumer"].get(name) for name in ("client_id", "address", "login")),
        )
        for event in life["events"]
        if event["kind"] != "sent"
    ]
