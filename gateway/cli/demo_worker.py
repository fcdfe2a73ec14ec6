"""The consumer of ``penstock demo``: a separate process, so that it can be killed like in a crash.

    python -m gateway.cli.demo_worker HOST PORT MAXIMUM_REDELIVERIES HOLD_AFTER ACKNOWLEDGE DEAD_LETTER DESTINATION...

The worker subscribes to each destination at prefetch 1, acknowledges orders and refuses unreadable ones.  After
HOLD_AFTER acknowledgements (-1: never) it acknowledges no more and waits to be killed.  It ends once ACKNOWLEDGE orders
are acknowledged and DEAD_LETTER orders are dead letters.  It prints a JSON object now and then: its counts by
destination.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict, dataclass, field
from typing import Final

from gateway.cli.shared.blocking_client import BlockingClient, expect
from protocols.stomp.codec.frames import ACK, DISCONNECT, MESSAGE, NACK, RECEIPT, SUBSCRIBE, Frame

UNREADABLE: Final = b"unreadable"
REPORT_EVERY: Final = 250


@dataclass(slots=True)
class Done:
    """The work of one worker, by destination.  ``redelivered``: deliveries that were not a message's first."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    redelivered: dict[str, int] = field(default_factory=dict)
    dead_lettered: dict[str, int] = field(default_factory=dict)
    is_holding: bool = False

    def count(self, what: dict[str, int], destination: str) -> None:
        what[destination] = what.get(destination, 0) + 1

    @property
    def acknowledged_count(self) -> int:
        return sum(self.acknowledged.values())

    @property
    def dead_lettered_count(self) -> int:
        return sum(self.dead_lettered.values())


class Worker:
    def __init__(self, client: BlockingClient, maximum_redeliveries: int, hold_after: int) -> None:
        self._client = client
        self._maximum_redeliveries = maximum_redeliveries
        self._hold_after = hold_after
        self._subscriptions = 0
        self._held = 0
        self.done = Done()

    def run(self, destinations: list[str], acknowledge: int, dead_letter: int) -> None:
        self._subscriptions = len(destinations)
        for destination in destinations:
            headers = [("id", destination), ("destination", destination), ("ack", "client-individual")]
            self._client.send(SUBSCRIBE, [*headers, ("activemq.prefetchSize", "1")])
        while self.done.acknowledged_count < acknowledge or self.done.dead_lettered_count < dead_letter:
            self._handle(expect(self._client.next_frame(), MESSAGE))
        self._client.send(DISCONNECT, [("receipt", "bye")])
        # Prefetch 1: each subscription may have one more order on its way; it returns to its place.
        while self._client.next_frame().command != RECEIPT:
            pass

    def _handle(self, message: Frame) -> None:
        headers = message.head.headers
        done = self.done
        destination = headers["subscription"]
        if headers.get("redelivered") == "true":
            done.count(done.redelivered, destination)
        if message.body.startswith(UNREADABLE):
            self._client.send(NACK, [("id", headers["ack"])])
            if int(headers.get("JMSXDeliveryCount", "1")) > self._maximum_redeliveries:
                done.count(done.dead_lettered, destination)
            return
        if done.acknowledged_count == self._hold_after:
            self._held += 1
            if self._held == self._subscriptions:  # no more messages can come: every window is full
                done.is_holding = True
                self.report()
                threading.Event().wait()  # for SIGKILL
            return
        self._client.send(ACK, [("id", headers["ack"])])
        done.count(done.acknowledged, destination)
        if done.acknowledged_count % REPORT_EVERY == 0:
            self.report()

    def report(self) -> None:
        print(json.dumps(asdict(self.done)), flush=True)


def main() -> None:
    host, port, maximum_redeliveries, hold_after, acknowledge, dead_letter, *destinations = sys.argv[1:]
    client = BlockingClient(host, int(port))
    worker = Worker(client, int(maximum_redeliveries), int(hold_after))
    worker.run(destinations, int(acknowledge), int(dead_letter))
    worker.report()
    client.close()


if __name__ == "__main__":
    main()
