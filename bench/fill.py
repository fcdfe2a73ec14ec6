"""Ten million messages on one queue: evenness of the fill, memory, restart, and queries by id and by key."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bench.measure import Say, first_delivery
from bench.plain_stomp import PlainStomp
from bench.processes import Broken, Gateway, memory_mib
from engine.store.read.found_message import Bounds, FoundMessage
from engine.store.read.query import StoreQuery
from engine.store.read.reader import StoreReader
from gateway.settings.message_keys import MESSAGE_KEYS
from protocols.stomp.codec import frames

QUEUE: Final = "fill"
BODY_BYTES: Final = 256
BATCH_MESSAGES: Final = 1_000  # messages per receipt
AHEAD_BATCHES: Final = 8
QUERIES: Final = 2_000
HTTP_QUERIES: Final = 300
INDEX_LIMIT_S: Final = 600.0


def measure(home: Path, messages: int, keyed_one_in: int, say: Say) -> dict[str, Any]:
    """keyed_one_in: one of this many messages has a key, which is unique."""
    gateway = Gateway(home)
    try:
        gateway.start()
        filled = _fill(gateway, messages, keyed_one_in)
        filled["memory_mib"] = memory_mib(gateway.pid)
        say(f"fill   {filled['per_s']:,}/s, tenths {filled['tenths_per_s']}, {filled['memory_mib']}")
        filled["index_behind_s"] = _await_index(home / "data", messages, keyed_one_in)
        restarts: dict[str, int] = {}
        for how, number in (("stop", signal.SIGTERM), ("kill", signal.SIGKILL)):
            gateway.stop(number)
            began = time.monotonic()
            gateway.start()
            first_delivery(gateway.port, QUEUE)
            restarts[how] = round((time.monotonic() - began) * 1000)
        say(f"restart to first delivery, ms: {restarts}")
        _await_index(home / "data", messages, keyed_one_in)
        queries = _queries(gateway, messages, keyed_one_in)
        say(f"queries {queries}")
        memory = memory_mib(gateway.pid)
    finally:
        gateway.stop()
        shutil.rmtree(home, ignore_errors=True)
    return {
        "messages": messages,
        "keyed_one_in": keyed_one_in,
        "fill": filled,
        "restart_ms": restarts,
        "queries": queries,
        "memory_after_mib": memory,
    }


def _fill(gateway: Gateway, messages: int, keyed_one_in: int) -> dict[str, Any]:
    client = PlainStomp(gateway.port)
    body = b"x" * BODY_BYTES
    plain = b"SEND\ndestination:/queue/%b\npersistent:true\n\n%b\0" % (QUEUE.encode(), body)
    keyed = b"SEND\ndestination:/queue/%b\npersistent:true\nkeys:key-%%d\n\n%b\0" % (QUEUE.encode(), body)
    last = b"SEND\ndestination:/queue/%b\npersistent:true\nreceipt:r\n\n%b\0" % (QUEUE.encode(), body)
    times: list[float] = []
    waiting: deque[int] = deque()
    began = time.monotonic()
    for start in range(0, messages, BATCH_MESSAGES):
        parts = [
            keyed % number if number % keyed_one_in == 0 else plain
            for number in range(start, start + BATCH_MESSAGES - 1)
        ]
        client.send(b"".join([*parts, last]))
        waiting.append(start)
        if len(waiting) >= AHEAD_BATCHES:
            client.take(frames.RECEIPT)
            waiting.popleft()
            times.append(time.monotonic() - began)
    while waiting:
        client.take(frames.RECEIPT)
        waiting.popleft()
        times.append(time.monotonic() - began)
    client.close()
    marks = [0.0, *(times[len(times) * tenth // 10 - 1] for tenth in range(1, 11))]
    each = messages / 10
    return {
        "per_s": round(messages / times[-1]),
        "tenths_per_s": [round(each / (marks[tenth + 1] - marks[tenth])) for tenth in range(10)],
    }


def _await_index(data: Path, messages: int, keyed_one_in: int) -> float:
    """Wait until the newest key is found without a scan of the log; return the seconds that it took."""
    began = time.monotonic()
    newest = (messages - 2) // keyed_one_in * keyed_one_in
    while time.monotonic() - began < INDEX_LIMIT_S:
        with StoreQuery(StoreReader(data), MESSAGE_KEYS) as query:
            page = query.by_key(f"key-{newest}", Bounds())
        if page.messages and page.scanned_bytes < 1 << 20:
            return round(time.monotonic() - began, 1)
        time.sleep(1)
    raise Broken(f"the key index has not caught up within {INDEX_LIMIT_S:.0f} s")


def _queries(gateway: Gateway, messages: int, keyed_one_in: int) -> dict[str, dict[str, float]]:
    """Query random messages, each with a new reader, like a command; then over HTTP."""
    chance = random.Random(4711)
    data = gateway.home / "data"
    keys: list[str] = []
    while len(keys) < QUERIES:
        number = chance.randrange(messages // keyed_one_in) * keyed_one_in
        if number % BATCH_MESSAGES != BATCH_MESSAGES - 1:  # the last of a batch has a receipt in place of its key
            keys.append(f"key-{number}")
    ids: list[str] = []
    reader = StoreReader(data)

    def by_key(key: str) -> FoundMessage | None:
        with StoreQuery(StoreReader(data), MESSAGE_KEYS) as query:
            found = query.by_key(key, Bounds()).messages
        return found[0] if found else None

    def by_id(message_id: str) -> None:
        with StoreQuery(StoreReader(data), MESSAGE_KEYS) as query:
            query.by_id(message_id)

    timed: dict[str, dict[str, float]] = {}
    found_by_key: list[FoundMessage | None] = []
    timed["by_key_ms"] = _timed([lambda key=key: found_by_key.append(by_key(key)) for key in keys])  # type: ignore[misc]
    ids = [found.message_id for found in found_by_key if found is not None]
    if len(ids) < len(keys):
        raise Broken(f"{len(keys) - len(ids)} of {len(keys)} keys are not found")
    timed["by_id_ms"] = _timed([lambda one=one: by_id(one) for one in ids])  # type: ignore[misc]
    with StoreQuery(reader, MESSAGE_KEYS) as query:
        timed["by_id_one_reader_ms"] = _timed([lambda one=one: query.by_id(one) for one in ids])  # type: ignore[misc]
        timed["by_key_one_reader_ms"] = _timed(
            [lambda key=key: query.by_key(key, Bounds()) for key in keys]  # type: ignore[misc]
        )
    base = f"http://127.0.0.1:{gateway.http_port}/api/store/query"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def over_http(what: str) -> None:
        with opener.open(f"{base}?{what}") as response:
            json.load(response)

    timed["http_id_ms"] = _timed(
        [lambda one=one: over_http(f"id={quote(one)}") for one in ids[:HTTP_QUERIES]]  # type: ignore[misc]
    )
    timed["http_key_ms"] = _timed(
        [lambda key=key: over_http(f"key={quote(key)}") for key in keys[:HTTP_QUERIES]]  # type: ignore[misc]
    )
    return timed


def _timed(calls: list[Callable[[], Any]]) -> dict[str, float]:
    """Return milliseconds; cpu_p99: of this thread's processor time, which is independent of other programs."""
    durations: list[float] = []
    worked: list[float] = []
    for call in calls:
        began, began_cpu = time.perf_counter(), time.thread_time()
        call()
        durations.append((time.perf_counter() - began) * 1000)
        worked.append((time.thread_time() - began_cpu) * 1000)
    durations.sort()
    worked.sort()
    return {
        "p50": round(durations[len(durations) // 2], 3),
        "p99": round(durations[len(durations) * 99 // 100], 3),
        "most": round(durations[-1], 3),
        "cpu_p99": round(worked[len(worked) * 99 // 100], 3),
    }
