"""``kill -9`` while transactions are committed: each is there whole or not at all; whole if its receipt was seen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from gateway.cli.shared.blocking_client import BlockingClient, ConnectionLost, expect
from protocols.stomp.codec.frames import ACK, BEGIN, COMMIT, RECEIPT, SEND
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.waiting import wait_until

KILLS: Final = 3
SENDS: Final = 10  # in each transaction, over two queues
WINDOW: Final = 8  # transactions whose COMMIT is not confirmed
COMMITS_BEFORE_KILL: Final = 100


class Committer(threading.Thread):
    """Sends numbered transactions until the connection is lost."""

    def __init__(self, gateway: GatewayProcess, queues: tuple[str, str], first: int) -> None:
        super().__init__(daemon=True)
        self._client = raw_stomp.client(gateway)
        self._queues = queues
        self.next_number = first
        self.confirmed: set[int] = set()
        self.start()

    def run(self) -> None:
        try:
            while True:
                self._transaction(self.next_number)
                self.next_number += 1
                if self.next_number % WINDOW == 0:
                    for _ in range(WINDOW):
                        receipt = expect(self._client.next_frame(), RECEIPT).head.headers["receipt-id"]
                        self.confirmed.add(int(receipt))
        except ConnectionLost:
            pass
        finally:
            self._client.close()

    def _transaction(self, number: int) -> None:
        name = ("transaction", str(number))
        self._client.send(BEGIN, [name])
        for part in range(SENDS):
            queue = self._queues[part % 2]
            self._client.send(SEND, [("destination", queue), ("persistent", "true"), name], b"%d" % number)
        self._client.send(COMMIT, [name, ("receipt", str(number))])


def drain(gateway: GatewayProcess, queue: str) -> Counter[int]:
    """Return how often each number is in ``queue``, reading up to a message that is sent behind all others."""
    client: BlockingClient = raw_stomp.client(gateway)
    list(client.publish([(queue, b"end")]))
    raw_stomp.subscribe(client, queue, prefetch=1000)
    counts: Counter[int] = Counter()
    while (message := raw_stomp.message(client)).body != b"end":
        counts[int(message.body)] += 1
        client.send(ACK, [("id", message.head.headers["ack"])])
    client.close()
    return counts


def test_transactions_are_whole_or_not_there(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    queues = (f"/queue/{unique('left')}", f"/queue/{unique('right')}")
    gateway = start_gateway(configurations.small_segments())
    confirmed: set[int] = set()
    next_number = 0
    for _ in range(KILLS):
        committer = Committer(gateway, queues, next_number)
        wait_until(
            lambda committer=committer: len(committer.confirmed) >= COMMITS_BEFORE_KILL,  # type: ignore[misc]
            f"{COMMITS_BEFORE_KILL} commits are confirmed",
        )
        gateway.kill9()
        committer.join(raw_stomp.LIMIT_S)
        assert not committer.is_alive()
        confirmed |= committer.confirmed
        next_number = (committer.next_number // WINDOW + 1) * WINDOW
        gateway.restart()
    left, right = (drain(gateway, queue) for queue in queues)
    assert left == right, "a transaction is there in one queue and not, or not as often, in the other"
    assert set(left.values()) == {SENDS // 2}, "a part of a transaction is there"
    lost = confirmed - set(left)
    assert not lost, f"confirmed transactions are gone: {sorted(lost)[:20]}"
