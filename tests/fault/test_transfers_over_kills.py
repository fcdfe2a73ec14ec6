"""``kill -9`` while messages are moved by transactions from one queue to another: each is in exactly one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from gateway.cli.shared.blocking_client import ConnectionLost
from protocols.stomp.codec.frames import ACK, BEGIN, COMMIT, MESSAGE, RECEIPT, SEND
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.waiting import wait_until

KILLS: Final = 3
KILLS_LONG: Final = 30
MESSAGES: Final = 600
TOGETHER: Final = 4  # messages in one transaction
MOVED_BEFORE_KILL: Final = 40


class Mover(threading.Thread):
    """Takes from ``source``, some at a time, and sends each on to ``target`` in the transaction that settles it."""

    def __init__(self, gateway: GatewayProcess, source: str, target: str) -> None:
        super().__init__(daemon=True)
        self._client = raw_stomp.client(gateway)
        self._source = source
        self._target = target
        self.confirmed: set[bytes] = set()
        self.start()

    def run(self) -> None:
        committing: dict[str, list[bytes]] = {}
        taken: list[tuple[str, bytes]] = []
        try:
            raw_stomp.subscribe(self._client, self._source, prefetch=10 * TOGETHER)
            while True:
                frame = self._client.next_frame()
                if frame.command == RECEIPT:
                    self.confirmed.update(committing.pop(frame.head.headers["receipt-id"]))
                    continue
                assert frame.command == MESSAGE
                taken.append((frame.head.headers["ack"], frame.body))
                if len(taken) == TOGETHER:
                    name = f"t{taken[0][0]}"
                    committing[name] = [body for _, body in taken]
                    self._move(name, taken)
                    taken = []
        except ConnectionLost:
            pass
        finally:
            self._client.close()

    def _move(self, name: str, taken: list[tuple[str, bytes]]) -> None:
        transaction = ("transaction", name)
        self._client.send(BEGIN, [transaction])
        for ack, body in taken:
            self._client.send(SEND, [("destination", self._target), ("persistent", "true"), transaction], body)
            self._client.send(ACK, [("id", ack), transaction])
        self._client.send(COMMIT, [transaction, ("receipt", name)])


def test_a_moved_message_is_in_one_queue(
    start_gateway: StartGateway, unique: Callable[[str], str], is_long: bool
) -> None:
    queues = [f"/queue/{unique('left')}", f"/queue/{unique('right')}"]
    gateway = start_gateway(configurations.small_segments())
    client = raw_stomp.client(gateway)
    bodies = [b"%d" % number for number in range(MESSAGES)]
    assert len(list(client.publish([(queues[0], body) for body in bodies]))) == MESSAGES
    client.close()
    moved_back: set[bytes] = set()
    for _ in range(KILLS_LONG if is_long else KILLS):
        mover = Mover(gateway, *queues)
        wait_until(
            lambda mover=mover: len(mover.confirmed) >= MOVED_BEFORE_KILL,  # type: ignore[misc]
            f"{MOVED_BEFORE_KILL} messages have moved",
        )
        gateway.kill9()
        mover.join(raw_stomp.LIMIT_S)
        assert not mover.is_alive()
        gateway.restart()
        moved_back |= mover.confirmed & set(take_all(gateway, queues[0], keeps=True))
        queues.reverse()
    assert not moved_back, f"moved by a transaction that was confirmed, and back: {sorted(moved_back)[:20]}"
    found = take_all(gateway, queues[0]) + take_all(gateway, queues[1])
    assert sorted(found) == sorted(bodies), "a message is in both queues, or in none"


def take_all(gateway: GatewayProcess, queue: str, keeps: bool = False) -> list[bytes]:
    """Return what is in a queue, up to a message that is sent behind all others; ``keeps``: leave the others there."""
    client = raw_stomp.client(gateway)
    list(client.publish([(queue, b"end")]))
    raw_stomp.subscribe(client, queue, prefetch=2 * MESSAGES)
    bodies: list[bytes] = []
    while (message := raw_stomp.message(client)).body != b"end":
        bodies.append(message.body)
        if not keeps:
            client.send(ACK, [("id", message.head.headers["ack"])])
    raw_stomp.send_ack(client, message, receipt="end")
    while client.next_frame().command != RECEIPT:
        pass
    client.close()
    return bodies
