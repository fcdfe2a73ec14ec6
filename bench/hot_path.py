#!/usr/bin/env python3
"""The path of a message without sockets: processor time per message from SEND to ACK, in one process.

A producer's and a consumer's session get octets as from a socket.  The store is a real one on disk, without syncs.

    python bench/hot_path.py [--messages N] [--size BYTES] [--runs N] [--non-persistent] [--profile]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.in_process import QuietLink, close_after, measure, open_broker, open_store, reads_of, spent_us
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession

ACK_ID = re.compile(rb"\nack:(\d+)\n")


def run(directory: str, messages: int, size: int, is_persistent: bool) -> float:
    """Return microseconds of processor time per message."""
    store = open_store(directory)
    broker = open_broker(store)
    producer = StompSession(broker, QuietLink(), SessionSettings(), 0)
    consumer = StompSession(broker, QuietLink(), SessionSettings(), 0)
    connect = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
    producer.receive_data(connect, 0)
    consumer.receive_data(
        connect + b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client-individual\nactivemq.prefetchSize:30000\n\n\0", 0
    )
    persistent = b"persistent:true\n" if is_persistent else b""
    body = b"x" * size
    reads = reads_of(
        [
            b"SEND\ndestination:/queue/q\ncontent-length:%d\n%breceipt:%010d\n\n%b\0" % (size, persistent, number, body)
            for number in range(messages)
        ]
    )
    all_us = spent_us(broker, store, producer, consumer, reads, acknowledgements)
    close_after(broker, store, messages)
    return all_us / messages


def acknowledgements(delivered: bytes) -> bytes:
    """Return an ACK of each MESSAGE."""
    return b"".join(b"ACK\nid:%b\n\n\0" % ack_id for ack_id in ACK_ID.findall(delivered))


if __name__ == "__main__":
    measure(run, __doc__)
