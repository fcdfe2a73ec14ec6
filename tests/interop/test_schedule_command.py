"""``penstock schedule`` and the management messages of ActiveMQ, against the real process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.support.process.command import penstock
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import Client, Connect
from tests.support.process.waiting import wait_until

HOUR_MS = 3_600_000


def listed(*words: str) -> dict[str, Any]:
    done = penstock("schedule", "list", "--json", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def schedule(client: Client, destination: str, body: str, **asked: str | int) -> None:
    with client.receipt() as receipt:
        headers = {f"AMQ_SCHEDULED_{name}": str(value) for name, value in asked.items()}
        client.connection.send(destination, body, headers={"receipt": receipt, "persistent": "true", **headers})


def test_schedules_are_listed_and_cancelled(
    start_gateway: StartGateway, connect: Connect, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway()
    first, second = unique("a"), unique("b")
    client = connect("1.2", gateway)
    now_ms = time.time() * 1000
    for number in range(3):
        schedule(client, f"/queue/{first}", str(number), DELAY=(3 - number) * HOUR_MS)
    schedule(client, f"/topic/{second}", "again", DELAY=10, PERIOD=HOUR_MS, REPEAT=5)
    live = ("--http", gateway.http_url)
    while (found := listed(*live))["schedules"][0]["fired"] == 0 and found["schedules"][0]["repeats"]:
        time.sleep(0.05)
    assert found["pending"] == 4
    assert found["next_due_ms"] == found["schedules"][0]["due_ms"]
    described = [(one["destination"], one["repeats"], one["fired"]) for one in found["schedules"]]
    assert sorted(described) == [(f"queue://{first}", False, 0)] * 3 + [(f"topic://{second}", True, 1)]
    dues = [one["due_ms"] for one in found["schedules"]]
    assert dues == sorted(dues)
    assert all(now_ms + HOUR_MS <= due <= now_ms + 3 * HOUR_MS + 60_000 for due in dues)
    own = listed(*live, "--destination", first, "--limit", "2")
    assert (len(own["schedules"]), own["more"], own["pending"]) == (2, True, 4)

    job = own["schedules"][0]["id"]
    done = penstock("schedule", "cancel", job, *live)
    assert (done.returncode, done.stdout) == (0, "cancelled 1 message\n")
    done = penstock("schedule", "cancel", job, *live)
    assert (done.returncode, done.stdout) == (1, "cancelled 0 messages\n")
    assert f"{job} is not scheduled" in done.stderr
    gateway.kill9()
    assert_same_as_a_gateway_would(gateway, 3)
    gateway.restart()
    live = ("--http", gateway.http_url)
    done = penstock("schedule", "cancel", "--destination", f"queue://{first}", *live)
    assert (done.returncode, done.stdout) == (0, "cancelled 2 messages\n")
    stat = gateway.get_json("/api/stat")["schedule"]
    assert (stat["pending"], stat["cancelled"], stat["late"]) == (1, 2, 0)
    text = penstock("schedule", "list", *live)
    assert f"topic://{second}" in text.stdout
    assert "repeats, has fired 1 times" in text.stdout
    for words, code, said in (
        (("cancel", *live), 2, "cancel takes either ids or --destination"),
        (("cancel", "--destination", "nowhere", *live), 1, "no queue 'nowhere'"),
        (("list", "--destination", "a*b", *live), 2, "'a*b', allowed is"),
        (("list", "--limit", "0"), 2, "is not a whole number from 1"),
    ):
        refused = penstock("schedule", *words)
        assert (refused.returncode, said in refused.stderr) == (code, True), refused.stderr


def assert_same_as_a_gateway_would(gateway: GatewayProcess, count: int) -> None:
    """List the schedules of a store that nobody holds."""
    found = listed("--data", str(gateway.data))
    assert found["pending"] == count
    assert len(found["schedules"]) == count
    assert [one["fired"] for one in found["schedules"] if one["repeats"]] == [1]
    destination = found["schedules"][-1]["destination"]
    own = listed("--data", str(gateway.data), "--destination", destination)
    assert {one["destination"] for one in own["schedules"]} == {destination}


def test_why_tells_of_a_schedule_and_of_what_it_delivered(
    start_gateway: StartGateway, connect: Connect, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway()
    queue = f"/queue/{unique('q')}"
    client = connect("1.2", gateway)
    client.subscribe(queue)
    schedule(client, queue, "x", DELAY=50, PERIOD=200, REPEAT=1)
    first, second = client.message(), client.message()
    job = first.headers["scheduledJobId"]
    client.close()

    def why(message_id: str) -> list[str]:
        done = penstock("why", "message", message_id, "--http", gateway.http_url)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    ending = f"fired as {second.headers['message-id']}; it is done"
    wait_until(lambda: any(ending in line for line in why(job)), "the end of the schedule")
    lines = why(job)
    assert any(line.startswith("  scheduled, first for ") for line in lines)
    assert any(f"fired for the 1. time as {first.headers['message-id']}; due again at" in line for line in lines)
    assert f"  delivered by schedule {job}" in why(first.headers["message-id"])
    gateway.terminate()
    done = penstock("store", "verify", "--data", str(gateway.data))
    assert done.returncode == 0, done.stdout


def test_management_messages(start_gateway: StartGateway, connect: Connect, unique: Callable[[str], str]) -> None:
    gateway = start_gateway()
    queue = f"/queue/{unique('q')}"
    client = connect("1.2", gateway)
    client.subscribe("/temp-queue/answers")
    schedule(client, queue, "first", DELAY=HOUR_MS)
    schedule(client, queue, "second", CRON="0 0 1 1 *")

    def manage(**headers: str) -> None:
        with client.receipt() as receipt:
            client.connection.send("/topic/ActiveMQ.Scheduler.Management", "", headers={"receipt": receipt, **headers})

    manage(AMQ_SCHEDULER_ACTION="BROWSE", **{"reply-to": "/temp-queue/answers"})
    found = {one.body: one.headers for one in (client.message(), client.message())}
    assert found["first"]["original-destination"] == queue
    assert found["second"]["AMQ_SCHEDULED_CRON"] == "0 0 1 1 *"
    manage(AMQ_SCHEDULER_ACTION="REMOVE", scheduledJobId=found["first"]["scheduledJobId"])
    assert [one["repeats"] for one in listed("--http", gateway.http_url)["schedules"]] == [True]
    manage(AMQ_SCHEDULER_ACTION="REMOVEALL")
    assert listed("--http", gateway.http_url)["pending"] == 0
    client.connection.send("/topic/ActiveMQ.Scheduler.Management", "", headers={"AMQ_SCHEDULER_ACTION": "STOP"})
    assert "allowed are BROWSE, REMOVE and REMOVEALL" in str(client.error().body)


def test_what_a_full_address_holds_back_is_told_and_comes(
    start_gateway: StartGateway, connect: Connect, unique: Callable[[str], str]
) -> None:
    name = unique("full")
    limits = "max-size-messages: 10, address-full-policy: BLOCK"
    gateway = start_gateway(f"addresses: [{{match: {name}, {limits}}}]")
    client = connect("1.2", gateway)
    for number in range(100):
        client.connection.send(f"/queue/{name}", str(number), headers={"AMQ_SCHEDULED_DELAY": "700"})
    live = ("--http", gateway.http_url)
    wait_until(lambda: listed(*live)["held"] == 90, "90 to be held back", 20)
    found = listed(*live, "--limit", "1")["schedules"][0]
    assert found["held"].startswith(f"address-full: queue://{name} holds 10 of 10 messages (max-size-messages)")
    text = penstock("schedule", "list", "--limit", "1", *live)
    assert "  held back: address-full: " in text.stdout
    assert "90 scheduled messages, 90 of them are due and held back" in text.stderr
    told = penstock("why", "message", found["id"], *live).stdout
    assert "now: is due and held back: address-full: " in told
    client.subscribe(f"/queue/{name}", ack="client-individual")
    bodies = []
    for _ in range(100):
        message = client.message()
        bodies.append(message.body)
        client.connection.ack(message.headers["ack"])
    assert bodies == [str(number) for number in range(100)]
    assert listed(*live)["pending"] == 0
