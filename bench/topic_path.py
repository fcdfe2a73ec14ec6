#!/usr/bin/env python3
"""The path of a topic's message to ten subscribers without sockets: like hot_path.py, for row e.

Messages are not persistent, and subscribers acknowledge nothing (``ack:auto``).

    python bench/topic_path.py [--messages N] [--size BYTES] [--runs N] [--profile]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.in_process import QuietLink, measure, open_broker, open_store
from engine.broker import Broker
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession

A_TURN: Final = 50
SUBSCRIBERS: Final = 10
CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
SUBSCRIBE: Final = b"SUBSCRIBE\nid:s\ndestination:/topic/t\nack:auto\n\n\0"


def subscribers(broker: Broker) -> list[StompSession]:
    """Return sessions that have subscribed to the topic."""
    sessions = [StompSession(broker, QuietLink(), SessionSettings(), 0) for _ in range(SUBSCRIBERS)]
    for session in sessions:
        session.receive_data(CONNECT + SUBSCRIBE, 0)
    offset = broker.end_turn()
    for session in sessions:
        session.end_turn(offset, offset)
    return sessions


def publish(broker: Broker, sessions: list[StompSession], messages: int, size: int) -> float:
    """Publish this many messages, and take the output of each session; return seconds of processor time."""
    producer = StompSession(broker, QuietLink(), SessionSettings(), 0)
    producer.receive_data(CONNECT, 0)
    send = b"SEND\ndestination:/topic/t\ncontent-length:%d\n\n%b\0" % (size, b"x" * size)
    start = time.process_time()
    for _ in range(messages // A_TURN):
        broker.begin_turn()
        producer.receive_data(send * A_TURN, 0)
        offset = broker.end_turn()
        producer.end_turn(offset, offset)
        for session in sessions:
            session.end_turn(offset, offset)
            if session.is_output_full:
                session.output_written(False)
    return time.process_time() - start


def run(directory: str, messages: int, size: int, is_persistent: bool) -> float:
    """Return microseconds of processor time per message, for all of its subscribers."""
    store = open_store(directory)
    broker = open_broker(store)
    spent_s = publish(broker, subscribers(broker), messages, size)
    stats = broker.inspect().destinations[0]
    assert (stats.delivered, stats.depth) == (messages * SUBSCRIBERS, 0), stats
    store.close()
    return spent_s * 1e6 / messages


if __name__ == "__main__":
    measure(run, __doc__)
