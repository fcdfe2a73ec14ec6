"""A message that dies and comes back, with stomp.py and the commands that an operator would type."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.command import penstock
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import Client


def why(gateway: GatewayProcess, *words: str) -> dict[str, Any]:
    done = penstock("why", *words, "--http", gateway.http_url, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_a_dead_letter_is_explained_and_sent_back(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    name = unique("orders")
    gateway = start_gateway(configurations.quick_redelivery(maximum_redeliveries=1))
    worker = Client(gateway, "1.2", heartbeats=(0, 0)).connect(**{"client-id": "worker"})
    worker.subscribe(f"/queue/{name}", "client-individual", **{"activemq.prefetchSize": "1"})
    worker.send(f"/queue/{name}", "poison", colour="red")
    first = worker.message()
    message_id = first.headers["message-id"]
    consumer = gateway.get_json("/api/stat")["consumers"][0]
    held = why(gateway, "consumer", str(consumer["consumer_id"]))
    assert held["own"]["gate"].startswith("window-full: 1 of 1 in flight")
    holder = why(gateway, "message", message_id)
    assert holder["where"]["state"] == "in-flight"
    assert "client worker" in holder["lines"][-1] or "worker at" in holder["lines"][-1]

    worker.nack(first)
    again = worker.message()
    assert again.headers["JMSXDeliveryCount"] == "2"
    worker.nack(again)
    undertaker = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    undertaker.subscribe("/queue/ActiveMQ.DLQ", "client-individual")
    dead = undertaker.message()
    assert dead.headers["dlqConsumer"].startswith("worker at 127.0.0.1:")
    undertaker.close()

    life = why(gateway, "message", message_id)
    assert [event["kind"] for event in life["events"]] == ["sent", "failed", "settled"]
    assert life["events"][-1]["outcome"] == "dead-lettered"
    assert life["events"][-1]["moved_to"] == dead.headers["message-id"]
    assert life["events"][-1]["consumer"]["client_id"] == "worker"

    done = penstock("retry", "--filter", "colour = 'blue'", "--http", gateway.http_url)
    assert (done.returncode, done.stdout) == (0, "0 messages of ActiveMQ.DLQ went back to their origins\n")
    done = penstock("retry", "--id", dead.headers["message-id"], "--http", gateway.http_url)
    assert done.returncode == 0, done.stderr
    back = worker.message()
    assert (back.body, back.headers["dlqRetryCount"], back.headers["JMSXDeliveryCount"]) == ("poison", "1", "1")
    worker.ack(back)
    worker.close()

    data = str(gateway.data)
    gateway.terminate()
    stopped = penstock("why", "message", back.headers["message-id"], "--data", data)
    assert stopped.returncode == 0, stopped.stderr
    assert "acknowledged by worker at" in stopped.stdout


def test_what_is_not_there_is_said(gateway: GatewayProcess) -> None:
    sender = raw_stomp.client(gateway)
    for words, expected in (
        (("why", "consumer", "999"), "no consumer 999"),
        (("why", "message", "ID:nonsense-1"), "is not an id of this store"),
        (("retry", "no.such.queue"), "no queue 'no.such.queue'"),
    ):
        done = penstock(*words, "--http", gateway.http_url)
        assert done.returncode == 1
        assert expected in done.stderr
    assert penstock("why", "consumer", "1", "--data", str(gateway.data)).returncode == 2
    sender.close()
