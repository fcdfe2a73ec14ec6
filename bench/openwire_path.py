#!/usr/bin/env python3
"""The path of an OpenWire message without sockets: like hot_path.py, for messages and MessageAcks.

python bench/openwire_path.py [--messages N] [--size BYTES] [--runs N] [--non-persistent] [--profile]
"""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.in_process import QuietLink, close_after, measure, open_broker, open_store, reads_of, spent_us
from engine.broker import Broker
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.session.openwire_session import OpenWireSession
from protocols.openwire.wire.commands import ConnectionInfo, ConsumerInfo, MessageAck, ProducerInfo, WireFormatInfo
from protocols.openwire.wire.identities import (
    QUEUE,
    ConnectionId,
    ConsumerId,
    Destination,
    MessageId,
    ProducerId,
)
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.messages import BytesMessage
from protocols.openwire.wire.writer import encode

CONNECTION: Final = "ID:bench-40001-1732600000000-1:1"
PRODUCER: Final = ProducerId(CONNECTION, 1, 1)
CONSUMING: Final = "ID:bench-40001-1732600000000-2:1"
CONSUMER: Final = ConsumerId(CONSUMING, 1, 1)
DESTINATION: Final = Destination(QUEUE, "q")
STANDARD: Final = 2  # MessageAck types
WINDOW: Final = 1_000_000
# In a dispatch: the producer's sequence, then the number of the hand-over that the acknowledgement repeats.
SEQUENCES: Final = re.compile(
    re.escape(
        b"\x6e\0\1\x7b\1"
        + len(CONNECTION).to_bytes(2, "big")
        + CONNECTION.encode()
        + bytes(7)
        + b"\1"
        + bytes(7)
        + b"\1"
    )
    + b"(.{16})",
    re.DOTALL,
)

COMMAND_MARK: Final = 0x5A5A5A5A
MARK: Final = b"\x5a" * 16
MARKED: Final = MessageId(None, PRODUCER, *struct.unpack(">qq", MARK))
ACK: Final = encode(
    MessageAck(
        command_id=3,
        destination=DESTINATION,
        consumer_id=CONSUMER,
        ack_type=STANDARD,
        first_message_id=MARKED,
        last_message_id=MARKED,
        message_count=1,
    )
)


def opened(broker: Broker, settings: OpenWireSettings, is_consumer: bool, window: int = WINDOW) -> OpenWireSession:
    """Return a connection with a consumer or a producer."""
    session = OpenWireSession(broker, QuietLink(), settings, 0)
    session.receive_data(encode(WireFormatInfo(version=VERSION), 1), 0)
    name = CONSUMING if is_consumer else CONNECTION
    octets = encode(ConnectionInfo(command_id=1, connection_id=ConnectionId(name), client_id=name))
    if is_consumer:
        info = ConsumerInfo(command_id=2, consumer_id=CONSUMER, destination=DESTINATION, prefetch_size=window)
        octets += encode(info)
    else:
        octets += encode(ProducerInfo(command_id=2, producer_id=PRODUCER, destination=DESTINATION))
    session.receive_data(octets, 0)
    return session


def messages_of(count: int, size: int, is_persistent: bool, needs_response: bool) -> list[bytes]:
    """Return messages as activemq-client sends them."""
    marked = encode(
        BytesMessage(
            command_id=COMMAND_MARK,
            response_required=needs_response,
            producer_id=PRODUCER,
            destination=DESTINATION,
            message_id=MARKED._replace(broker_sequence=0),
            persistent=is_persistent,
            priority=4,
            timestamp=1_732_600_000_000,
            content=b"x" * size,
        )
    )
    start, middle, end = re.split(b"\x5a{4,8}", marked)
    return [
        start + number.to_bytes(4, "big") + middle + number.to_bytes(8, "big") + end for number in range(3, count + 3)
    ]


def acknowledged(delivered: bytes) -> bytes:
    """Return an acknowledgement of each message."""
    return b"".join([accepted(found) for found in SEQUENCES.findall(delivered)])


def accepted(numbers: bytes) -> bytes:
    """Return an acknowledgement of one message.  numbers: the producer's sequence and the hand-over, as they came."""
    return ACK.replace(MARK, numbers)


def run(directory: str, messages: int, size: int, is_persistent: bool) -> float:
    """Return microseconds of processor time per message."""
    store = open_store(directory)
    broker = open_broker(store)
    settings = OpenWireSettings()
    producer = opened(broker, settings, is_consumer=False)
    consumer = opened(broker, settings, is_consumer=True)
    broker.end_turn()
    producer.end_turn(0, 0)
    consumer.end_turn(0, 0)
    reads = reads_of(messages_of(messages, size, is_persistent, is_persistent))
    all_us = spent_us(broker, store, producer, consumer, reads, acknowledged)
    close_after(broker, store, messages)
    return all_us / messages


if __name__ == "__main__":
    measure(run, __doc__)
