#!/usr/bin/env python3
"""The cost of selectors: processor time per message and selector, one topic with many subscriptions, in one process.

Each subscription is a STOMP session with a different selector, and gets octets as from a socket.  Every message matches
one subscription, so nearly all of the time is spent in selectors.  The target is less than 2 us.

    python bench/selectors_bench.py [--subscriptions N] [--messages N] [--runs N]
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.in_process import QuietLink, open_broker, open_store
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession

A_TURN: Final = 200  # messages

# A selector for each subscription, and the headers of a message that it matches.
FORMS: Final = {
    "equality": ("region = 'r{n}'", "region:r{n}\n"),
    "range": ("size > {n} AND size < {n}.5", "size:{n}.25\n"),
    "two properties": ("kind = 'order' AND size BETWEEN {n} AND {n}.5", "kind:order\nsize:{n}.25\n"),
    "pattern": ("region LIKE 'r{n}-%'", "region:r{n}-x\n"),
}


def run(directory: str, selector: str, headers: str, subscriptions: int, messages: int) -> float:
    """Return microseconds of processor time per message and selector."""
    store = open_store(directory)
    broker = open_broker(store)
    connect = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
    producer = StompSession(broker, QuietLink(), SessionSettings(), 0)
    producer.receive_data(connect, 0)
    consumers = []
    for number in range(subscriptions):
        consumer = StompSession(broker, QuietLink(), SessionSettings(), 0)
        subscribe = f"SUBSCRIBE\nid:s\ndestination:/topic/t\nselector:{selector.format(n=number)}\n\n\0"
        consumer.receive_data(connect + subscribe.encode(), 0)
        consumers.append(consumer)
    sends = [
        f"SEND\ndestination:/topic/t\n{headers.format(n=number % subscriptions)}\nbody\0".encode()
        for number in range(messages)
    ]
    turns = deque(b"".join(sends[start : start + A_TURN]) for start in range(0, messages, A_TURN))
    gc.collect()
    gc.disable()
    spent_s = 0.0
    delivered = 0
    while turns or delivered < messages:  # with many selectors the engine goes on over further turns
        octets = turns.popleft() if turns else b""
        start = time.process_time()
        broker.begin_turn()
        producer.receive_data(octets, 0)
        offset = broker.end_turn()
        spent_s += time.process_time() - start
        for consumer in consumers:
            delivered += consumer.end_turn(offset, offset).count(b"MESSAGE\n")
            consumer.output_written(False)
    gc.enable()
    (topic,) = [one for one in broker.inspect().destinations if one.name == "t"]
    assert topic.delivered == messages, topic
    store.close()
    return spent_s / messages / subscriptions * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--subscriptions", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    for name, (selector, headers) in FORMS.items():
        results: list[float] = []
        for _ in range(arguments.runs):
            directory = tempfile.mkdtemp(prefix="penstock-selectors-")
            try:
                results.append(run(directory, selector, headers, arguments.subscriptions, arguments.messages))
            finally:
                shutil.rmtree(directory)
        print(f"{name:<15} {statistics.median(results):.3f} us per message and selector (least {min(results):.3f})")


if __name__ == "__main__":
    main()
