"""A producer and a consumer that record the confirmations they get, while the gateway is killed."""

from __future__ import annotations

import threading
from typing import Final

from gateway.cli.shared.blocking_client import ConnectionLost, Refused
from protocols.stomp.codec.frames import ERROR, MESSAGE, RECEIPT
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess

BODY_BYTES: Final = 1024
PREFETCH: Final = 50
WINDOW: Final = 200
FAREWELL: Final = "shutting down"  # text of the ERROR that ends a connection when the gateway stops in order


class Ledger:
    """The clients' knowledge of the messages, across all lives of the gateway; the number of a message is its body.

    confirmed: the producer got the receipt.  delivered: some consumer got it.  ack_sent: an ACK was sent for it.
    settled: the consumer got the receipt of its ACK.  Guarded by ``changed``.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.next_number = 1
        self.confirmed: set[int] = set()
        self.delivered: set[int] = set()
        self.ack_sent: set[int] = set()
        self.settled: set[int] = set()
        self.violations: list[str] = []

    def stands_still(self) -> bool:
        """Say whether no receipt comes for a second."""
        with self.changed:
            before = len(self.confirmed)
            return not self.changed.wait_for(lambda: len(self.confirmed) > before, timeout=1.0)

    def check_end(self) -> None:
        """Check the laws once the queue has been emptied."""
        lost = self.confirmed - self.delivered
        assert not lost, f"confirmed and never delivered: {sorted(lost)[:20]} ({len(lost)} in all)"
        forgotten = self.confirmed - self.ack_sent
        assert not forgotten, f"confirmed, never acknowledged, not redelivered: {sorted(forgotten)[:20]}"
        assert not self.violations, "; ".join(self.violations[:5])


def body_of(number: int) -> bytes:
    return (b"%d " % number).ljust(BODY_BYTES, b".")


class Producer(threading.Thread):
    """Sends until the connection is lost, or ``count`` messages.

    held_at: number of messages after which it waits for ``may_go_on``; 0 for none.
    """

    def __init__(
        self, gateway: GatewayProcess, destination: str, ledger: Ledger, count: int = 10**9, held_at: int = 0
    ) -> None:
        super().__init__(daemon=True)
        self._held_at = held_at
        self.may_go_on = threading.Event()
        self._client = raw_stomp.client(gateway)
        self._destination = destination
        self._ledger = ledger
        self._count = count
        self.failure: Exception | None = None
        self.start()

    def run(self) -> None:
        ledger = self._ledger
        with ledger.changed:
            first = ledger.next_number
        messages = ((self._destination, self._body(first, index)) for index in range(self._count))
        try:
            for index in self._client.publish(messages, WINDOW):
                with ledger.changed:
                    ledger.confirmed.add(first + index)
                    ledger.changed.notify_all()
        except ConnectionLost:
            pass
        except (Refused, TimeoutError) as error:
            if FAREWELL not in str(error):
                self.failure = error
        finally:
            self._client.close()

    def _body(self, first: int, index: int) -> bytes:
        if index == self._held_at > 0:
            assert self.may_go_on.wait(raw_stomp.LIMIT_S)
        number = first + index
        with self._ledger.changed:
            self._ledger.next_number = number + 1
        return body_of(number)


class Consumer(threading.Thread):
    """Acknowledges each message singly, with a receipt, until the connection is lost or ``until`` is settled."""

    def __init__(self, gateway: GatewayProcess, destination: str, ledger: Ledger, until: int = -1) -> None:
        super().__init__(daemon=True)
        self._client = raw_stomp.client(gateway)
        self._destination = destination
        self._ledger = ledger
        self._until = until
        self._settled_before = set(ledger.settled)
        self._last = 0
        self.failure: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            raw_stomp.subscribe(self._client, self._destination, PREFETCH)
            self._consume()
        except ConnectionLost:
            pass
        except (AssertionError, Refused, TimeoutError) as error:
            self.failure = error
        finally:
            self._client.close()

    def _consume(self) -> None:
        ledger = self._ledger
        while self._until not in ledger.settled:
            frame = self._client.next_frame()
            if frame.command == RECEIPT:
                with ledger.changed:
                    ledger.settled.add(int(frame.head.headers["receipt-id"]))
                    ledger.changed.notify_all()
                continue
            if frame.command == ERROR and FAREWELL in frame.head.headers["message"]:
                return
            assert frame.command == MESSAGE, f"frame {frame.command}: {frame.head.headers} {frame.body!r}"
            number = int(frame.body.split(b" ", 1)[0])
            with ledger.changed:
                self._check_delivery(number, frame.body)
                ledger.delivered.add(number)
                ledger.ack_sent.add(number)  # before it is sent: the gateway may die with it
                ledger.changed.notify_all()
            raw_stomp.send_ack(self._client, frame, receipt=str(number))

    def _check_delivery(self, number: int, body: bytes) -> None:
        violations = self._ledger.violations
        if number in self._settled_before:
            violations.append(f"message {number} came back after the receipt of its ACK")
        if number <= self._last:
            violations.append(f"message {number} came after {self._last}: repeated within a life, or out of order")
        if body != body_of(number):
            violations.append(f"message {number} has another body: {body[:40]!r}")
        self._last = number


def join(thread: Producer | Consumer, limit_s: float = 60.0) -> None:
    """Wait for the thread's end; fail if it did not end, or ended with an error."""
    thread.join(limit_s)
    assert not thread.is_alive(), f"{type(thread).__name__} did not end within {limit_s:.0f} s"
    if thread.failure is not None:
        raise AssertionError(f"{type(thread).__name__} failed: {thread.failure!r}") from thread.failure
