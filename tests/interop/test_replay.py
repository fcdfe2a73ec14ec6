"""``penstock replay`` and ``store query --http`` against a running gateway, with stomp.py on the other side."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable

from tests.support.process.command import penstock
from tests.support.process.gateway_process import ROOT, StartGateway
from tests.support.process.stomp_py import Client

TEXT = {"amq-msg-type": "text"}  # stomp.py always sends a content-length, which means octets


def test_what_was_consumed_is_found_and_sent_again(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    source, target = unique("source"), unique("target")
    gateway = start_gateway()
    worker = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    worker.subscribe(f"/queue/{source}", "client-individual")
    for number in range(5):
        worker.send(
            f"/queue/{source}", f"order {number}", colour="a:b", keys=f"k{number}", priority=str(number), **TEXT
        )
    first = [worker.message() for _ in range(5)]
    for message in first:
        worker.ack(message)

    found = penstock("store", "query", "--key", "k3", "--http", gateway.http_url, "--json", "--body")
    assert found.returncode == 0, found.stderr
    (message,) = [json.loads(line) for line in found.stdout.splitlines()]
    assert (message["body"], message["destination"]) == ("order 3", f"queue://{source}")
    assert message["id"] == next(each for each in first if each.body == "order 3").headers["message-id"]

    options = ["--data", str(gateway.data), "--url", f"tcp://127.0.0.1:{gateway.stomp_port}", "--json"]
    dry = penstock("replay", source, target, *options, "--from-offset", "0", "--dry-run")
    assert json.loads(dry.stdout) == {"found": 5, "not_selected": 0, "converted": 0, "sent": 0}
    done = penstock("replay", source, f"queue://{target}", *options, "--rate", "100")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"found": 5, "not_selected": 0, "converted": 0, "sent": 5}

    worker.subscribe(f"/queue/{target}", "client-individual", subscription="2")
    again = {message.body: message.headers for message in (worker.message() for _ in range(5))}
    assert sorted(again) == [f"order {number}" for number in range(5)]
    assert again["order 3"]["colour"] == "a:b"
    assert again["order 3"]["priority"] == "3"
    assert again["order 3"]["replayed-message-id"] == message["id"]
    assert again["order 3"]["message-id"] != message["id"]
    some = penstock("replay", source, target, *options, "--selector", "keys = 'k2' OR keys = 'k4'", "--limit", "7")
    assert json.loads(some.stdout) == {"found": 2, "not_selected": 3, "converted": 0, "sent": 2}
    assert sorted(worker.bodies(2)) == ["order 2", "order 4"]
    assert penstock("replay", "nobody", target, *options).returncode == 1


def test_an_interrupted_replay_says_how_far_it_was(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    source, target = unique("source"), unique("target")
    gateway = start_gateway()
    worker = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    count = 1_000  # more than it sends before it is interrupted, however long this process is kept waiting
    for number in range(count):
        worker.send(f"/queue/{source}", f"order {number}", persistent="true", **TEXT)
    words = ["replay", source, target, "--data", str(gateway.data), "--rate", "10"]
    words += ["--url", f"tcp://127.0.0.1:{gateway.stomp_port}"]
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", *words], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as run:
        worker.subscribe(f"/queue/{target}", "auto", subscription="2")
        worker.bodies(5)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    told = re.fullmatch(r"penstock: interrupted \((\d+) sent, (\d+) confirmed\)\n", said)
    assert told, said
    assert int(told[2]) <= int(told[1])  # a starved replay may not have read a receipt yet
    assert 5 <= int(told[1]) < count
