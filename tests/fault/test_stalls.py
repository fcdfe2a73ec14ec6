"""A process that stands still for longer than heart-beats allow: clients that beat in time stay connected."""

from __future__ import annotations

import os
import signal
import socket
import time

import aiohttp

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.performatives import Begin, Close, Open
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, HEARTBEAT_OCTETS, protocol_header
from tests.support.process.gateway_process import GatewayProcess, StartGateway

LIMIT_S = 60.0
CLIENT_COUNT = 20  # of each protocol
# What is allowed is far more than this test needs between two beats, and the stall is longer still.
IDLE_TIME_MS = 3_000
STALL_S = 4.0
BEAT_S = 0.1

CONFIG = f"stomp: {{heart-beat-grace: 1}}\namqp: {{limits: {{idle-time-ms: {IDLE_TIME_MS}}}}}\n"
STOMP_CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:%d,0\n\n\0" % IDLE_TIME_MS
STOMP_QUESTION = b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0"
AMQP_OPEN = protocol_header(AMQP_LAYER) + encode_frame(0, Open("c"))
AMQP_QUESTION = encode_frame(0, Begin(None, 0, 100, 100))


class StompClient:
    beat = b"\n"
    question = STOMP_QUESTION

    def __init__(self, gateway: GatewayProcess) -> None:
        self.socket = socket.create_connection((gateway.stomp_host, gateway.stomp_port), LIMIT_S)
        self.received = b""
        self.socket.sendall(STOMP_CONNECT)
        self._read_until(b"CONNECTED")

    def is_served(self) -> bool:
        """Return whether the question is answered, rather than with an ERROR or the end."""
        return self._read_until(b"RECEIPT")

    def _read_until(self, octets: bytes) -> bool:
        while octets not in self.received:
            more = self.socket.recv(65_536)
            self.received += more
            if not more or b"ERROR" in self.received:
                return False
        return True


class AmqpClient:
    beat = HEARTBEAT_OCTETS
    question = AMQP_QUESTION

    def __init__(self, gateway: GatewayProcess) -> None:
        self.socket = socket.create_connection((gateway.stomp_host, gateway.stomp_port), LIMIT_S)
        self.decoder = Decoder(2**20)
        self.socket.sendall(AMQP_OPEN)
        self._read_until(Open)

    def is_served(self) -> bool:
        """Return whether the question is answered, rather than with a close or the end."""
        return self._read_until(Begin)

    def _read_until(self, kind: type[Composite]) -> bool:
        while True:
            frame = self.decoder.next_frame()
            if isinstance(frame, kind):
                return True
            if frame is None:
                more = self.socket.recv(65_536)
                self.decoder.receive_data(more)
                if not more:
                    return False


def test_who_beat_in_time_is_not_cut_by_a_stall(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONFIG)
    kinds = (StompClient, AmqpClient)
    clients: list[StompClient | AmqpClient] = []
    for kind in kinds:
        for _ in range(CLIENT_COUNT):
            clients.append(kind(gateway))
            for client in clients:
                client.socket.sendall(client.beat)
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        ends_at = time.monotonic() + STALL_S
        while time.monotonic() < ends_at:
            for client in clients:
                client.socket.sendall(client.beat)
            time.sleep(BEAT_S)
        for client in clients:  # now, so that it does not matter how soon this process runs after the stall
            client.socket.sendall(client.question)
    finally:
        os.kill(gateway.pid, signal.SIGCONT)
    served = [client.is_served() for client in clients]
    for client in clients:
        client.socket.close()
    assert served == [True] * len(clients)


async def test_who_beat_in_time_over_websocket_is_not_cut_either(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONFIG)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.http_url}/amqp", protocols=("amqp",)) as web_socket,
    ):
        decoder = Decoder(2**20)
        await web_socket.send_bytes(AMQP_OPEN)
        decoder.receive_data(await web_socket.receive_bytes(timeout=LIMIT_S))
        os.kill(gateway.pid, signal.SIGSTOP)
        try:
            ends_at = time.monotonic() + STALL_S
            while time.monotonic() < ends_at:
                await web_socket.send_bytes(HEARTBEAT_OCTETS)
                time.sleep(BEAT_S)
            await web_socket.send_bytes(AMQP_QUESTION)
        finally:
            os.kill(gateway.pid, signal.SIGCONT)
        answers: list[Composite] = []
        while not any(isinstance(one, Begin) for one in answers):
            frame = decoder.next_frame()
            if frame is None:
                decoder.receive_data(await web_socket.receive_bytes(timeout=LIMIT_S))
            else:
                assert not isinstance(frame, Close), "it was cut off"
                answers.append(frame)


def test_who_is_silent_is_still_given_up(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONFIG)
    stomp = StompClient(gateway)
    amqp = AmqpClient(gateway)
    assert not stomp._read_until(b"RECEIPT"), "an ERROR, and the end"
    assert b"no heart-beat for" in stomp.received
    assert not amqp._read_until(Begin), "close, and the end"
    stomp.socket.close()
    amqp.socket.close()
