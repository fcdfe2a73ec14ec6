#!/usr/bin/env python3
"""A turn with one message in it, without sockets: processor time per message where hardly anything is shared.

hot_path.py and amqp_path.py measure hundreds of messages per turn.  A synchronous sender has one, and so has a consumer
that may hold one message.  So here each message bears the whole cost of a turn and a read: rows d1, d16 and g of
bench/run.py.

    python bench/one_a_turn.py [--messages N] [--size BYTES] [--runs N]

stomp-send: a SEND with a receipt in each turn, confirmed in the next.  stomp-ack: an ACK in each, at prefetch 1.
amqp-send: a transfer, confirmed in the next turn.  amqp-ack: a disposition and a flow in each, at a credit of 1.
openwire-send: a message that asks for a response.  openwire-ack: a MessageAck in each turn, at prefetch 1.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import openwire_path
from bench.amqp_path import DATA, DELIVERY_ID, DURABLE, WINDOW, accepted, opened
from bench.hot_path import acknowledgements
from bench.in_process import QuietLink, close_after, open_broker, open_store
from engine.broker import Broker
from engine.store.file_store import FileStore
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.frames.frame_encoder import TransferHead
from protocols.connection import ProtocolConnection
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession

A_WRITE: Final = 200  # turns between writes
CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
SUBSCRIBE: Final = b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client-individual\nactivemq.prefetchSize:%d\n\n\0"


class Pair(ABC):
    """A producer, a consumer that may hold ``window`` messages, and their frames."""

    producer: ProtocolConnection
    consumer: ProtocolConnection

    @abstractmethod
    def sends(self, messages: int, size: int) -> list[bytes]:
        """Return the octets of this many messages."""

    @abstractmethod
    def answer(self, delivered: bytes) -> bytes:
        """Return the octets that settle the message in ``delivered`` and ask for the next."""


def stomp_sends(messages: int, size: int) -> list[bytes]:
    """Return persistent SENDs that ask for a receipt."""
    head = b"SEND\ndestination:/queue/q\ncontent-length:%d\npersistent:true\nreceipt:%010d\n\n%b\0"
    body = b"x" * size
    return [head % (size, number, body) for number in range(messages)]


class StompPair(Pair):
    def __init__(self, broker: Broker, window: int = 1) -> None:
        self.producer = StompSession(broker, QuietLink(), SessionSettings(), 0)
        self.consumer = StompSession(broker, QuietLink(), SessionSettings(), 0)
        self.producer.receive_data(CONNECT, 0)
        self.consumer.receive_data(CONNECT + SUBSCRIBE % window, 0)

    def sends(self, messages: int, size: int) -> list[bytes]:
        return stomp_sends(messages, size)

    def answer(self, delivered: bytes) -> bytes:
        return acknowledgements(delivered)


class AmqpPair(Pair):
    def __init__(self, broker: Broker, window: int = 1) -> None:
        settings = AmqpSettings(link_credit=1_000_000, incoming_window=1_000_000)
        self.producer = opened(broker, settings, "producer", False)
        self.consumer = opened(broker, settings, "consumer", True, credit=window)
        self.count = 0

    def sends(self, messages: int, size: int) -> list[bytes]:
        payload = DURABLE + DATA + size.to_bytes(4, "big") + b"x" * size
        head = TransferHead(0, 0)
        return [head.encode(len(payload), number, False, False) + payload for number in range(messages)]

    def answer(self, delivered: bytes) -> bytes:
        self.count += 1
        number = int.from_bytes(DELIVERY_ID.findall(delivered)[0], "big")
        return accepted(number) + asked(self.count)


def asked(count: int) -> bytes:
    """Return a flow that grants one message more than ``count``."""
    seen = b"\x70" + count.to_bytes(4, "big")
    window = b"\x70" + WINDOW.to_bytes(4, "big")
    return b"\0\0\0\x26\2\0\0\0\0\x53\x13\xc0\x19\x07" + seen + window + b"\x43" + window + b"\x43" + seen + b"\x52\1"


class OpenWirePair(Pair):
    def __init__(self, broker: Broker, window: int = 1) -> None:
        settings = OpenWireSettings()
        self.producer = openwire_path.opened(broker, settings, is_consumer=False)
        self.consumer = openwire_path.opened(broker, settings, is_consumer=True, window=window)

    def sends(self, messages: int, size: int) -> list[bytes]:
        return openwire_path.messages_of(messages, size, is_persistent=True, needs_response=True)

    def answer(self, delivered: bytes) -> bytes:
        return openwire_path.acknowledged(delivered)


PAIRS: Final[dict[str, type[StompPair] | type[AmqpPair] | type[OpenWirePair]]] = {
    "stomp": StompPair,
    "amqp": AmqpPair,
    "openwire": OpenWirePair,
}


def run(directory: str, messages: int, size: int, protocol: str) -> tuple[float, float]:
    """Return microseconds of processor time per message, of sending and of acknowledging."""
    store = open_store(directory)
    broker = open_broker(store)
    pair = PAIRS[protocol](broker)
    offset = broker.end_turn()
    pair.producer.end_turn(offset, offset)
    pair.consumer.end_turn(offset, offset)
    gc.collect()
    gc.disable()
    send_s = send(broker, store, pair, pair.sends(messages, size))
    ack_s = acknowledge(broker, store, pair, messages)
    gc.enable()
    close_after(broker, store, messages)
    return send_s * 1e6 / messages, ack_s * 1e6 / messages


def send(broker: Broker, store: FileStore, pair: Pair, reads: list[bytes]) -> float:
    """Send a message in each turn, confirmed in a second one; return seconds of processor time."""
    producer = pair.producer
    start = time.process_time()
    for number, read in enumerate(reads):
        broker.begin_turn()
        producer.receive_data(read, 0)
        offset = broker.end_turn()
        producer.end_turn(offset, 0)
        broker.begin_turn()
        producer.release_confirmations(offset)
        offset = broker.end_turn()
        producer.end_turn(offset, offset)
        if number % A_WRITE == 0:
            store.write()
    store.write()
    return time.process_time() - start


def acknowledge(broker: Broker, store: FileStore, pair: Pair, messages: int) -> float:
    """Settle a message in each turn, which brings the next; return seconds of processor time."""
    consumer = pair.consumer
    offset = broker.end_turn()
    delivered = consumer.end_turn(offset, offset)
    spent_s = 0.0
    for number in range(messages):
        said = pair.answer(delivered)
        start = time.process_time()
        broker.begin_turn()
        consumer.receive_data(said, 0)
        offset = broker.end_turn()
        delivered = consumer.end_turn(offset, offset)
        if number % A_WRITE == 0:
            store.write()
        spent_s += time.process_time() - start
    return spent_s


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    for protocol in PAIRS:
        results: list[tuple[float, float]] = []
        for _ in range(arguments.runs):
            directory = tempfile.mkdtemp(prefix="penstock-bench-")
            try:
                results.append(run(directory, arguments.messages, arguments.size, protocol))
            finally:
                shutil.rmtree(directory)
        for index, what in enumerate(("send", "ack")):
            spent = [result[index] for result in results]
            median = statistics.median(spent)
            print(f"{protocol}-{what}: {median:.2f} us per message (median of {len(spent)}, least {min(spent):.2f})")


if __name__ == "__main__":
    main()
