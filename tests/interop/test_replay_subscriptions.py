"""Replays with stomp.py and Qpid Proton against the real process: consumed messages come again, and none is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.process.gateway_process import ROOT, StartGateway
from tests.support.process.stomp_py import Client, Connect

Unique = Callable[[str], str]

COUNT = 300


def _consumed(connect: Connect, name: str, **options: str) -> list[str]:
    """Send and consume; return the message ids."""
    worker = connect("1.2")
    worker.subscribe(name, "client", **options)
    ids = []
    for number in range(COUNT):
        worker.send(name, str(number))
        message = worker.message()
        ids.append(message.headers["message-id"])
        worker.ack(message)
    worker.close()
    return ids


def test_a_queue_is_read_again_and_followed(connect: Connect, unique: Unique) -> None:
    name = f"/queue/{unique('q')}"
    ids = _consumed(connect, name)
    reader, other = connect("1.2"), connect("1.2")
    reader.subscribe(name, **{"from-id": ids[100]})
    assert reader.bodies(200) == [str(number) for number in range(100, 300)]
    other.subscribe(name)
    for number in range(300, 320):
        other.send(name, str(number))
    live = [str(number) for number in range(300, 320)]
    assert (reader.bodies(20), other.bodies(20)) == (live, live), "each has all of it"


def test_a_window_and_an_end(connect: Connect, unique: Unique) -> None:
    name = f"/queue/{unique('q')}"
    _consumed(connect, name)
    reader = connect("1.1")
    reader.subscribe(
        name, "client-individual", **{"from-offset": "290", "browser": "true", "activemq.prefetchSize": "3"}
    )
    for number in range(290, 300):
        message = reader.message()
        assert message.body == str(number)
        reader.ack(message)
    assert reader.message().headers["browser"] == "end"


def test_a_topics_past_and_present(connect: Connect, unique: Unique) -> None:
    name = f"/topic/{unique('t')}"
    sender = connect("1.2")
    for number in range(COUNT):
        sender.send(name, str(number))
    reader = connect("1.2")
    reader.subscribe(name, **{"from-time": "2020-01-01T00:00:00Z", "selector": "n IS NULL"})
    for number in range(COUNT, COUNT + 20):
        sender.send(name, str(number))
        sender.send(name, "not selected", n="1")
    assert reader.bodies(COUNT + 20) == [str(number) for number in range(COUNT + 20)]


def test_over_a_kill_and_told_by_why(start_gateway: StartGateway, unique: Unique) -> None:
    gateway = start_gateway()
    name = unique("t")
    sender = Client(gateway, "1.2").connect()
    for number in range(50):
        sender.send(f"/topic/{name}", str(number))
    gateway.kill9()
    gateway.start()
    reader = Client(gateway, "1.2").connect()
    reader.subscribe(f"/topic/{name}", "client-individual", **{"from-offset": "first", "activemq.prefetchSize": "5"})
    assert reader.bodies(5) == ["0", "1", "2", "3", "4"]
    [consumer] = gateway.get_json("/api/stat")["consumers"]
    lines = gateway.get_json(f"/api/why/consumer/{consumer['consumer_id']}")["lines"]
    assert "  replay       from the oldest that is kept; at entry 50 of 50 (priority 4); it only reads" in str(lines)
    reader.close()


def test_penstock_receive(start_gateway: StartGateway, unique: Unique) -> None:
    gateway = start_gateway()
    name = unique("q")
    client = Client(gateway, "1.2").connect()
    client.subscribe(f"/queue/{name}")
    for number in range(10):
        client.send(f"/queue/{name}", str(number), **{"amq-msg-type": "text"})
        client.message()
    client.close()
    command = [sys.executable, "-m", "gateway", "receive", name, "--url", f"tcp://127.0.0.1:{gateway.stomp_port}"]
    for words, expected in ((("--from-offset", "7"), "7\n8\n9\n"), (("--from-time", "0", "--count", "2"), "0\n1\n")):
        done = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_proton_filters(start_gateway: StartGateway, unique: Unique) -> None:
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")
    reactor = pytest.importorskip("proton.reactor")
    utils = pytest.importorskip("proton.utils")
    gateway = start_gateway()
    name = unique("q")
    connection = utils.BlockingConnection(f"amqp://127.0.0.1:{gateway.stomp_port}", timeout=20)
    sender = connection.create_sender(name)
    taker = connection.create_receiver(name, credit=10)
    for number in range(10):
        sender.send(proton.Message(body=f"{number}", durable=True))
        assert taker.receive(timeout=20).body == f"{number}"
        taker.accept()
    taker.close()
    for descriptor, value, first in (
        ("penstock:from-offset", proton.ulong(7), 7),
        ("rabbitmq:stream-offset-spec", "first", 0),
        ("rabbitmq:stream-offset-spec", proton.timestamp(0), 0),
        ("rabbitmq:stream-offset-spec", proton.ulong(4), 4),
    ):
        symbol = proton.symbol(descriptor)
        start = reactor.Filter({symbol: proton.Described(symbol, value)})
        receiver = connection.create_receiver(name, credit=20, options=start)
        assert [receiver.receive(timeout=20).body for _ in range(first, 10)] == [str(one) for one in range(first, 10)]
        for _ in range(first, 10):
            receiver.accept()
        receiver.close()
    connection.close()
