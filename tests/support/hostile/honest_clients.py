"""Clients that do one round trip after the other while others misbehave, and remember their confirmations."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Final, TypeVar

from gateway.cli.shared.blocking_client import BlockingClient, ConnectionLost
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Disposition, Flow, Open, Transfer
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslOutcome
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.stomp.codec.frames import ACK, MESSAGE, NAMES, RECEIPT, SEND, Frame
from tests.support.hostile.hostile_config import HONEST
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.waiting import wait_until
from tests.support.protocols.amqp_gateway import text

LIMIT_S: Final = 90.0  # no answer may take this long; not a measurement
# Others must not delay a round trip longer than this.  Undisturbed it takes milliseconds, on a busy machine with two
# processors seconds; under the attacks that this bound is for it took minutes.
ROUND_TRIP_MAX_S: Final = 30.0
TRIP: Final = "/queue/honest.trip"
KEPT: Final = "/queue/honest.kept"
DUE: Final = "/queue/honest.due"
CLOCKS_MS: Final = 20  # difference of a wall clock and a monotonic one in a short time
CROSS: Final = "queue://honest.cross"

F = TypeVar("F", bound=Composite)


def honest_stomp(gateway: GatewayProcess) -> BlockingClient:
    return BlockingClient(gateway.stomp_host, gateway.stomp_port, *HONEST, limit_s=LIMIT_S)


def come_in(gateway: GatewayProcess) -> None:
    """An honest client logs in, sends and is answered."""
    with closing(honest_stomp(gateway)) as newcomer:
        raw_stomp.call(newcomer, SEND, [("destination", "/topic/honest.nobody")])


class Trips(threading.Thread):
    """Round trips until ``stop``, each within ROUND_TRIP_MAX_S.

    count: complete round trips.  failure: why they ended early.  slowest_s: of the longest one.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self.slowest_s = 0.0
        self.failure: Exception | None = None
        self._is_stopping = False

    def run(self) -> None:
        try:
            while not self._is_stopping:
                began_s = time.monotonic()
                self._trip()
                self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
                assert self.slowest_s <= ROUND_TRIP_MAX_S, f"a round trip took {self.slowest_s:.1f} s"
                self.count += 1
        except (AssertionError, ConnectionLost, OSError) as error:
            self.failure = error
        finally:
            self._close()

    def more(self, count: int) -> None:
        """Return once this many further ones are complete."""
        wanted = self.count + count
        wait_until(lambda: self.count >= wanted or self.failure is not None, f"{count} honest round trips", LIMIT_S)
        if self.failure is not None:
            raise AssertionError(f"an honest client failed: {self.failure!r}") from self.failure

    def stop(self, is_killed: bool = False) -> None:
        """End it after the current trip.  is_killed: its gateway was killed, so that trip may fail."""
        self._is_stopping = True
        self.join(LIMIT_S)
        assert not self.is_alive(), "an honest client is stuck"
        if self.failure is not None and not (is_killed and isinstance(self.failure, (ConnectionLost, OSError))):
            raise AssertionError(f"an honest client failed: {self.failure!r}") from self.failure

    def _trip(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


def go_on(trips: Iterable[Trips]) -> None:
    """Let the honest clients complete some round trips during an attack."""
    for one in trips:
        one.more(2)


class StompTrips(Trips):
    """Sends to itself and acknowledges; every message has a twin in the queue that only keeps messages.

    confirmed: the numbers of the twins with a receipt; shared by all lives of the gateway.
    """

    def __init__(self, gateway: GatewayProcess, confirmed: set[int], number: int) -> None:
        super().__init__()
        self.confirmed = confirmed
        self.number = number
        self._client = honest_stomp(gateway)
        raw_stomp.subscribe(self._client, TRIP, prefetch=10)
        self.start()

    def _trip(self) -> None:
        self.number += 1
        body = b"honest:%d" % self.number
        for queue in (KEPT, TRIP):
            headers = [("destination", queue), ("persistent", "true"), ("receipt", queue)]
            self._client.send(SEND, headers, body)
        waiting = {KEPT, TRIP, "message"}
        while waiting:
            frame = self._client.next_frame()
            if frame.command == RECEIPT:
                receipt = frame.head.headers["receipt-id"]
                waiting.discard(receipt)
                if receipt == KEPT:
                    self.confirmed.add(self.number)
            else:
                self._acknowledge(frame)
                if frame.body == body:
                    waiting.discard("message")

    def _acknowledge(self, frame: Frame) -> None:
        assert frame.command == MESSAGE, f"{NAMES[frame.command]!r}: {frame.head.headers} {frame.body!r}"
        self._client.send(ACK, [("id", frame.head.headers["ack"])])

    def _close(self) -> None:
        self._client.close()


class AmqpTrips(Trips):
    """Sends durable messages to itself and accepts them, over AMQP 1.0."""

    def __init__(self, gateway: GatewayProcess) -> None:
        super().__init__()
        self._socket = socket.create_connection((gateway.stomp_host, gateway.stomp_port), LIMIT_S)
        # Otherwise this system delays octets after a small frame until the other side has acknowledged that frame.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = Decoder(1 << 24)
        self._sent = 0
        self._came = 0
        response = "\0".join(("", *HONEST)).encode()
        self._socket.sendall(protocol_header(SASL_LAYER) + encode_sasl_frame(SaslInit("PLAIN", response)))
        outcome = self._next(SaslOutcome)
        assert outcome.code == 0, outcome
        self._decoder.expect_header()
        self._socket.sendall(protocol_header(AMQP_LAYER))
        self._send(Open("honest"), Begin(None, 0, 2**31 - 1, 2**31 - 1))
        self._send(Attach("out", 0, False, source=Source(), target=Target(CROSS), initial_delivery_count=0))
        self._send(Attach("in", 1, True, source=Source(CROSS), target=Target()))
        self._send(Flow(0, 2**31 - 1, 0, 2**31 - 1, 1, 0, 100))
        self.start()

    def _send(self, *frames: Composite) -> None:
        self._socket.sendall(b"".join(encode_frame(0, frame) for frame in frames))

    def _next(self, *kinds: type[F]) -> F:
        while True:
            while (frame := self._decoder.next_frame()) is not None:
                if isinstance(frame, kinds):
                    return frame
                assert getattr(frame, "error", None) is None, frame
            octets = self._socket.recv(65_536)
            if not octets:
                raise ConnectionLost("the connection was closed")
            self._decoder.receive_data(octets)

    def _trip(self) -> None:
        number = self._sent
        self._sent += 1
        body = text(f"honest:{number}", durable=True)
        self._socket.sendall(encode_frame(0, Transfer(0, number, b"%d" % number, 0), body))
        is_confirmed = has_come = False
        while not (is_confirmed and has_come):
            frame: Composite = self._next(Disposition, Transfer)
            if isinstance(frame, Transfer):
                has_come = has_come or bytes(self._decoder.payload).endswith(b"honest:%d" % number)
                self._came += 1
                self._send(Disposition(True, frame.delivery_id or 0, None, True, Accepted()))
                self._send(Flow(0, 2**31 - 1, 0, 2**31 - 1, 1, self._came, 100))
            elif isinstance(frame, Disposition):
                assert isinstance(frame.state, Accepted), frame
                is_confirmed = True

    def _close(self) -> None:
        self._socket.close()


class DueTrips(Trips):
    """Schedules a message to itself and waits for it; it comes once, and not before its time."""

    def __init__(self, gateway: GatewayProcess, delay_ms: int = 200) -> None:
        super().__init__()
        self._delay_ms = delay_ms
        self._number = 0
        self._client = honest_stomp(gateway)
        raw_stomp.subscribe(self._client, DUE, prefetch=10)
        self.start()

    def _trip(self) -> None:
        self._number += 1
        body = b"honest:%d" % self._number
        began_s = time.monotonic()
        headers = [("destination", DUE), ("AMQ_SCHEDULED_DELAY", str(self._delay_ms)), ("receipt", "later")]
        self._client.send(SEND, headers, body)
        waiting = {"later", "message"}
        while waiting:
            frame = self._client.next_frame()
            if frame.command == RECEIPT:
                waiting.discard(frame.head.headers["receipt-id"])
                continue
            assert frame.command == MESSAGE, f"{NAMES[frame.command]!r}: {frame.head.headers} {frame.body!r}"
            self._client.send(ACK, [("id", frame.head.headers["ack"])])
            if frame.body == body:  # others belong to an earlier life
                assert "message" in waiting, f"{body!r} came twice"
                waiting.discard("message")
                assert time.monotonic() - began_s >= (self._delay_ms - CLOCKS_MS) / 1_000, "it came before its time"
        self._client.flush()

    def _close(self) -> None:
        self._client.close()
