"""Queues that an operator empties and removes, with stomp.py and the commands that he would type."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

from tests.support.process.command import penstock
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.stomp_py import Client


def told(gateway: GatewayProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return penstock(*words, "--http", gateway.http_url)


def queues(gateway: GatewayProcess) -> dict[str, Any]:
    return {one["name"]: one for one in gateway.get_json("/api/stat")["destinations"]}


def test_a_queue_is_purged_and_deleted(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    name = unique("orders")
    client = Client(gateway, "1.2").connect()
    for number in range(300):
        client.send(f"/queue/{name}", str(number), n=str(number), persistent="true")
    client.subscribe(f"/queue/{name}", "client-individual", **{"activemq.prefetchSize": "1"})
    held = client.message()

    refused = told(gateway, "delete", f"queue://{name}", "--force")
    assert (refused.returncode, "409" in refused.stderr) == (1, True), refused.stderr
    assert f"queue://{name} has 1 consumers" in refused.stderr

    some = told(gateway, "purge", name, "--filter", "n >= 290", "--json")
    assert some.returncode == 0, some.stderr
    assert json.loads(some.stdout) | {"purge": 1} == {"purge": 1, "queue": name, "dropped": 10, "done": True}
    rest = told(gateway, "purge", f"queue://{name}")
    assert (rest.returncode, rest.stdout) == (0, f"dropped 289 messages of {name}\n"), rest.stderr
    client.ack(held)
    client.unsubscribe()
    client.send(f"/queue/{name}", "late", persistent="true")

    refused = told(gateway, "delete", name)
    assert refused.returncode == 1
    assert f"queue://{name} holds 1 messages; purge it first" in refused.stderr
    deleted = told(gateway, "delete", name, "--force")
    assert (deleted.returncode, deleted.stdout) == (0, f"deleted queue://{name}\n"), deleted.stderr
    assert name not in queues(gateway)
    client.close()

    gateway.kill9()  # what was answered holds
    gateway.start()
    assert name not in queues(gateway)
    missing = told(gateway, "purge", name)
    assert (missing.returncode, f"no queue '{name}'" in missing.stderr) == (1, True)


def test_what_waits_for_a_certain_consumer_is_purged(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    """An exclusive consumer, and the owner of a message group, with full windows."""
    for name, sent, asked in (
        (unique("exclusive"), {}, {"activemq.exclusive": "true"}),
        (unique("grouped"), {"JMSXGroupID": "g"}, {}),
    ):
        client, other = Client(gateway, "1.2").connect(), Client(gateway, "1.2").connect()
        client.subscribe(f"/queue/{name}", "client-individual", **{"activemq.prefetchSize": "1"}, **asked)
        for number in range(300):
            client.send(f"/queue/{name}", str(number), persistent="true", **sent)
        held = client.message()
        other.subscribe(f"/queue/{name}", "client-individual", **{"activemq.prefetchSize": "1"})
        purged = told(gateway, "purge", name)
        assert (purged.returncode, purged.stdout) == (0, f"dropped 299 messages of {name}\n"), purged.stderr
        client.ack(held)
        client.close()
        other.close()


def test_a_topic_is_deleted_once_nobody_subscribes(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    name = unique("prices")
    client = Client(gateway, "1.2").connect()
    client.subscribe(f"/topic/{name}")
    refused = told(gateway, "delete", f"topic://{name}")
    assert (refused.returncode, f"topic://{name} has 1 subscriptions" in refused.stderr) == (1, True)
    purged = told(gateway, "purge", f"topic://{name}")
    assert (purged.returncode, "destination is a topic, which has no messages" in purged.stderr) == (2, True)
    client.unsubscribe()
    deleted = told(gateway, "delete", f"/topic/{name}", "--json")
    assert json.loads(deleted.stdout) == {"deleted": f"topic://{name}"}
    client.close()
