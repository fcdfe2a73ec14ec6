"""``kill -9`` under a durable subscription: nothing confirmed is missed, nothing whose ACK was confirmed comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

from gateway.cli.shared.blocking_client import BlockingClient, ConnectionLost
from protocols.stomp.codec.frames import ACK, MESSAGE, RECEIPT, SUBSCRIBE
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.waiting import wait_until

KILLS: Final = 3
BEFORE_KILL: Final = 300  # messages confirmed, and acknowledgements confirmed


class Publisher(threading.Thread):
    """Publishes numbers until the connection is lost."""

    def __init__(self, gateway: GatewayProcess, topic: str, first: int) -> None:
        super().__init__(daemon=True)
        self._client = raw_stomp.client(gateway)
        self._topic = topic
        self._first = first
        self.next_number = first
        self.confirmed: set[int] = set()
        self.start()

    def run(self) -> None:
        try:
            for index in self._client.publish(self._messages(), window=50):
                self.confirmed.add(self._first + index)
        except ConnectionLost:
            pass
        finally:
            self._client.close()

    def _messages(self) -> Iterator[tuple[str, bytes]]:
        while True:
            self.next_number += 1
            yield self._topic, b"%d" % (self.next_number - 1)


class Subscriber(threading.Thread):
    """Acknowledges every other message with a receipt until the connection is lost."""

    def __init__(self, gateway: GatewayProcess, topic: str) -> None:
        super().__init__(daemon=True)
        self._client = raw_stomp.client(gateway)
        subscribe(self._client, topic)
        self.acknowledged: set[int] = set()
        self.settled: set[int] = set()
        self.start()

    def run(self) -> None:
        try:
            while True:
                frame = self._client.next_frame()
                if frame.command == RECEIPT:
                    self.settled.add(int(frame.head.headers["receipt-id"]))
                    continue
                assert frame.command == MESSAGE
                number = int(frame.body)
                if number % 2:
                    self.acknowledged.add(number)
                    raw_stomp.send_ack(self._client, frame, str(number))
        except ConnectionLost:
            pass
        finally:
            self._client.close()


def subscribe(client: BlockingClient, topic: str) -> None:
    headers = [("id", "s"), ("destination", topic), ("ack", "client-individual"), ("activemq.prefetchSize", "5000")]
    client.call(SUBSCRIBE, [*headers, ("shared-subscription-name", "audit"), ("durable", "true")])


def test_a_durable_subscription_over_kills(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    topic = f"/topic/{unique('news')}"
    gateway = start_gateway(configurations.small_segments())
    confirmed: set[int] = set()
    settled: set[int] = set()
    acknowledged: set[int] = set()
    next_number = 0
    for _ in range(KILLS):
        subscriber = Subscriber(gateway, topic)
        publisher = Publisher(gateway, topic, next_number)
        wait_until(
            lambda one=publisher, other=subscriber: (  # type: ignore[misc]
                len(one.confirmed) >= BEFORE_KILL and len(other.settled) >= BEFORE_KILL
            ),
            f"{BEFORE_KILL} messages and as many acknowledgements are confirmed",
        )
        gateway.kill9()
        for thread in (publisher, subscriber):
            thread.join(raw_stomp.LIMIT_S)
            assert not thread.is_alive()
        confirmed |= publisher.confirmed
        settled |= subscriber.settled
        acknowledged |= subscriber.acknowledged
        next_number = publisher.next_number
        gateway.restart()
    client = raw_stomp.client(gateway)
    list(client.publish([(topic, b"-1")]))
    subscribe(client, topic)
    left: list[int] = []
    while (message := raw_stomp.message(client)).body != b"-1":
        left.append(int(message.body))
        client.send(ACK, [("id", message.head.headers["ack"])])
    client.close()
    assert len(set(left)) == len(left), "a message is there twice"
    back = settled & set(left)
    assert not back, f"acknowledged with a receipt, and back: {sorted(back)[:20]}"
    # An ACK whose receipt was still on its way may have been the last thing that the disk has seen.
    missing = confirmed - acknowledged - set(left)
    assert not missing, f"confirmed, and gone: {sorted(missing)[:20]}"
