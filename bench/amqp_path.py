#!/usr/bin/env python3
"""The path of an AMQP message without sockets: like hot_path.py, for transfers and dispositions.

python bench/amqp_path.py [--messages N] [--size BYTES] [--runs N] [--non-persistent] [--profile]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.in_process import QuietLink, close_after, measure, open_broker, open_store, reads_of, spent_us
from engine.broker import Broker
from protocols.amqp.sasl import Credentials, ScramVerifier
from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Flow, Open
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import TransferHead, encode_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, protocol_header

DURABLE = bytes.fromhex("005370c0020141")
DATA = b"\x00\x53\x75\xb0"
WINDOW = 0x7FFFFFFF
DELIVERY_ID = re.compile(rb"\x00\x53\x14\xc0\x10\x06\x43\x70(....)\xa0\x04", re.DOTALL)


class Nobody(Credentials):
    def scram_mechanisms(self) -> tuple[str, ...]:
        return ()

    def scram(self, mechanism: str, login: str) -> ScramVerifier:
        raise AssertionError("no login here")

    def nonce(self) -> str:
        raise AssertionError("no login here")


def opened(
    broker: Broker, settings: AmqpSettings, container: str, is_consumer: bool, credit: int = 1_000_000
) -> AmqpConnection:
    """Return a connection with a session and one link."""
    connection = AmqpConnection(broker, QuietLink(), settings, Nobody(), 0)
    source, target = Source("q"), Target("q")
    octets = protocol_header(AMQP_LAYER)
    octets += encode_frame(0, Open(container, max_frame_size=1 << 20))
    octets += encode_frame(0, Begin(None, 0, WINDOW, WINDOW))
    octets += encode_frame(0, Attach("l", 0, is_consumer, None, None, source, target, initial_delivery_count=0))
    if is_consumer:
        octets += encode_frame(0, Flow(0, WINDOW, 0, WINDOW, 0, 0, credit))
    connection.receive_data(octets, 0)
    return connection


def run(directory: str, messages: int, size: int, is_persistent: bool) -> float:
    """Return microseconds of processor time per message."""
    store = open_store(directory)
    broker = open_broker(store)
    settings = AmqpSettings(link_credit=1_000_000, incoming_window=1_000_000)
    producer = opened(broker, settings, "producer", False)
    consumer = opened(broker, settings, "consumer", True)
    broker.end_turn()
    producer.end_turn(0, 0)
    consumer.end_turn(0, 0)
    payload = (DURABLE if is_persistent else b"") + DATA + size.to_bytes(4, "big") + b"x" * size
    head = TransferHead(0, 0)
    reads = reads_of([head.encode(len(payload), number, False, False) + payload for number in range(messages)])
    all_us = spent_us(broker, store, producer, consumer, reads, dispositions)
    close_after(broker, store, messages)
    return all_us / messages


def dispositions(delivered: bytes) -> bytes:
    """Return a disposition for each transfer."""
    return b"".join([accepted(int.from_bytes(number, "big")) for number in DELIVERY_ID.findall(delivered)])


def accepted(number: int) -> bytes:
    """Return a disposition of one delivery, as clients write it with both first and last."""
    return (
        b"\x00\x00\x00\x1e\x02\x00\x00\x00\x00\x53\x15\xc0\x11\x05\x41\x70"
        + number.to_bytes(4, "big")
        + b"\x70"
        + number.to_bytes(4, "big")
        + b"\x41\x00\x53\x24\x45"
    )


if __name__ == "__main__":
    measure(run, __doc__)
