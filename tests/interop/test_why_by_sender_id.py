"""``penstock why message`` with the id that the sender gave: clients of each protocol, and every end of a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")

from proton import Message

from protocols.openwire.wire import identities
from protocols.openwire.wire.identities import Destination
from tests.support.process.command import penstock
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.proton_peer import Connect, connections
from tests.support.process.raw_openwire import RawOpenWire
from tests.support.process.stomp_py import Client
from tests.support.process.waiting import wait_until

CONFIG = """\
store:
  segment-bytes: 64 KiB
  retention: {time: 0s, bytes: 0}
  compaction: {min-age: 0s, live-percent: 60}
"""
JAVA = "ID:host-39123-1700000000000-1:1"


def why(*words: str) -> dict[str, Any]:
    done = penstock("why", "message", *words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def amqp(shared_gateway: GatewayProcess) -> Iterator[Connect]:
    yield from connections(shared_gateway)


def test_a_message_of_each_protocol(start_gateway: StartGateway, amqp: Connect, unique: Callable[[str], str]) -> None:
    gateway = start_gateway()
    name = unique("q")
    stomp = Client(gateway, "1.2").connect()
    stomp.send(f"/queue/{name}", "of stomp", **{"amqp-message-id": "order:17"})
    java = RawOpenWire(gateway, JAVA)
    java.ask(java.message(Destination(identities.QUEUE, name), "of java", 1))
    sender = amqp(gateway).create_sender(name)
    sender.send(Message(id="amqp-5", body="of amqp", durable=True))
    sender.send(Message(id=7, body="of amqp", durable=True))

    stomp.subscribe(f"/queue/{name}", "client-individual")
    messages = [stomp.message() for _ in range(4)]
    ids = [message.headers["message-id"] for message in messages]
    sender_ids = ["order:17", f"{JAVA}:1:1:1", "amqp-5", "ID:AMQP_ULONG:7"]
    for sender_id, message_id in zip(sender_ids, ids, strict=True):
        found = why(sender_id, "--http", gateway.http_url)
        assert found["message_id"] == message_id and found["others"] == []
        assert found["where"]["state"] == "in-flight" and found["search"]["is_whole"]
        assert why(message_id, "--http", gateway.http_url)["search"] is None
    stomp.ack(messages[1])
    stomp.nack(messages[2])  # it comes again, until it is a dead letter
    settled = why(f"{JAVA}:1:1:1", "--http", gateway.http_url)
    assert settled["events"][-1]["outcome"] == "acknowledged"
    java.close()
    stomp.close()
    data = str(gateway.data)
    gateway.terminate()
    assert why("amqp-5", "--data", data)["message_id"] == ids[2]


def test_a_dead_letter_has_the_id_of_its_origin(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    gateway = start_gateway("addresses:\n  - match: '>'\n    redelivery: {maximum-redeliveries: 0}\n")
    name = unique("q")
    java = RawOpenWire(gateway, JAVA)
    java.ask(java.message(Destination(identities.QUEUE, name), "poison", 1))
    stomp = Client(gateway, "1.2").connect()
    stomp.subscribe(f"/queue/{name}", "client-individual")
    poison = stomp.message()
    stomp.nack(poison)
    stomp.subscribe("/queue/ActiveMQ.DLQ", "client-individual", subscription="dead")
    dead = stomp.message()
    found = why(f"{JAVA}:1:1:1", "--http", gateway.http_url)
    assert found["message_id"] == dead.headers["message-id"] and found["is_dead_letter"]
    (origin,) = found["others"]
    assert origin["message_id"] == poison.headers["message-id"]
    assert origin["events"][-1]["moved_to"] == found["message_id"]
    assert found["lines"][0].startswith(f"2 messages, the newest first, have the id '{JAVA}:1:1:1' from the sender")
    java.close()
    stomp.close()


def test_what_compaction_has_left_is_found(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    gateway = start_gateway(CONFIG)
    name = unique("q")
    stomp = Client(gateway, "1.2").connect()
    for sender_id in ("gone", "kept"):
        stomp.send(f"/queue/{name}", "x" * 1_000, **{"amqp-message-id": sender_id})
    for number in range(200):
        stomp.send(f"/queue/{name}.more", "x" * 1_000, **{"amqp-message-id": f"more-{number}"})
    stomp.subscribe(f"/queue/{name}", "client-individual")
    stomp.ack(stomp.message())
    stomp.message()
    stomp.subscribe(f"/queue/{name}.more", "auto", subscription="2")
    for _ in range(200):
        stomp.message()

    def is_thinned() -> bool:
        return any(each["is_sparse"] for each in gateway.get_json("/api/store/du")["segments"])

    wait_until(is_thinned, "a thinned segment")
    assert why("kept", "--http", gateway.http_url)["where"]["state"] == "in-flight"
    done = penstock("why", "message", "gone", "--http", gateway.http_url)
    assert done.returncode == 1
    assert "no message has it from its sender: all of the log below offset" in done.stderr
    stomp.close()
