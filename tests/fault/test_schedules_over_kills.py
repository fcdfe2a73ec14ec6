"""``kill -9`` of the real process while messages are scheduled and fire: each confirmed one fires exactly once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from gateway.cli.shared.blocking_client import ConnectionLost
from protocols.stomp.codec.frames import ACK, RECEIPT, SEND
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.waiting import wait_until

KILLS = 3
KILLS_LONG = 40
MESSAGES = 4_000  # of one start, more than it lives to take
PATIENCE_S = 60.0


def send_until_killed(
    gateway: GatewayProcess, queue: str, first: int, draw: random.Random, confirmed: set[int]
) -> None:
    """Schedule messages for the next two seconds until the connection is lost; note what is confirmed."""
    client = raw_stomp.client(gateway)
    try:
        for number in range(first, first + MESSAGES):
            headers = [
                ("destination", queue),
                ("persistent", "true"),
                ("AMQ_SCHEDULED_DELAY", str(draw.randrange(1, 2_000))),
                ("receipt", str(number)),
            ]
            client.send(SEND, headers, b"%d" % number)
            if number % 50 == 49:
                for _ in range(50):
                    frame = client.next_frame()
                    assert frame.command == RECEIPT
                    confirmed.add(int(frame.head.headers["receipt-id"]))
    except (ConnectionLost, ConnectionError):
        return
    finally:
        client.close()


def test_each_confirmed_schedule_fires_exactly_once(
    start_gateway: StartGateway, unique: Callable[[str], str], is_long: bool, seed: int
) -> None:
    kills = KILLS_LONG if is_long else KILLS
    print(f"{kills} kills with --seed {seed}")
    draw = random.Random(seed)
    queue = f"/queue/{unique('due')}"
    gateway = start_gateway(configurations.small_segments())
    confirmed: set[int] = set()
    for kill in range(kills):
        sender = threading.Thread(target=send_until_killed, args=(gateway, queue, kill * MESSAGES, draw, confirmed))
        wanted = len(confirmed) + draw.randrange(1, 1_500)
        sender.start()
        while len(confirmed) < wanted and sender.is_alive():
            time.sleep(0.005)
        time.sleep(draw.random() * 0.3)  # so that some fire
        gateway.kill9()
        sender.join()
        gateway.restart()
    wait_until(lambda: gateway.get_json("/api/stat")["schedule"]["pending"] == 0, "all to fire", PATIENCE_S)
    stats = {one["name"]: one["depth"] for one in gateway.get_json("/api/stat")["destinations"]}
    consumer = raw_stomp.client(gateway)
    raw_stomp.subscribe(consumer, queue, prefetch=1_000)
    fired: Counter[int] = Counter()
    for _ in range(stats[queue.removeprefix("/queue/")]):
        message = raw_stomp.message(consumer)
        fired[int(message.body)] += 1
        consumer.send(ACK, [("id", message.head.headers["ack"])])
    consumer.close()
    assert confirmed
    assert not confirmed - fired.keys()
    assert [number for number, times in fired.items() if times > 1] == []


def receive_until_killed(gateway: GatewayProcess, queue: str, ids: dict[int, set[str]]) -> None:
    """Acknowledge what comes until the connection is lost; note which messages each schedule became."""
    client = raw_stomp.client(gateway)
    try:
        raw_stomp.subscribe(client, queue, prefetch=20)
        while True:
            frame = raw_stomp.message(client)
            headers = frame.head.headers
            ids.setdefault(int(frame.body), set()).add(headers["message-id"])
            client.send(ACK, [("id", headers["ack"])])
            client.flush()
    except (ConnectionLost, ConnectionError):
        return
    finally:
        client.close()


def test_what_a_full_address_holds_back_fires_exactly_once(
    start_gateway: StartGateway, unique: Callable[[str], str], is_long: bool, seed: int
) -> None:
    kills = KILLS_LONG if is_long else KILLS
    print(f"{kills} kills with --seed {seed}")
    draw = random.Random(seed)
    name = unique("full")
    limits = "max-size-messages: 30, address-full-policy: BLOCK"
    gateway = start_gateway(f"{configurations.small_segments()}addresses: [{{match: {name}, {limits}}}]")
    confirmed: set[int] = set()
    ids: dict[int, set[str]] = {}
    most_held = 0
    for kill in range(kills):
        work = [
            threading.Thread(
                target=send_until_killed, args=(gateway, f"/queue/{name}", kill * MESSAGES, draw, confirmed)
            ),
            threading.Thread(target=receive_until_killed, args=(gateway, f"/queue/{name}", ids)),
        ]
        wanted = len(confirmed) + draw.randrange(200, 1_500)
        for thread in work:
            thread.start()
        while len(confirmed) < wanted and work[0].is_alive():
            time.sleep(0.005)
        most_held = max(most_held, gateway.get_json("/api/stat")["schedule"]["held"])
        time.sleep(draw.random())
        gateway.kill9()
        for thread in work:
            thread.join()
        gateway.restart()
    receiver = threading.Thread(target=receive_until_killed, args=(gateway, f"/queue/{name}", ids))
    receiver.start()
    wait_until(lambda: gateway.get_json("/api/stat")["schedule"]["pending"] == 0, "all to fire", PATIENCE_S)
    wait_until(lambda: depth_of(gateway, name) == 0, "all to be received", PATIENCE_S)
    gateway.kill9()
    receiver.join()
    gateway.restart()
    assert confirmed
    assert not confirmed - ids.keys()
    assert {number: found for number, found in ids.items() if len(found) > 1} == {}
    print(f"{len(ids)} fired, at most {most_held} were held back")


def depth_of(gateway: GatewayProcess, name: str) -> int:
    return sum(one["depth"] for one in gateway.get_json("/api/stat")["destinations"] if one["name"] == name)
