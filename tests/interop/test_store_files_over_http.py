"""The store of a running gateway, read by ranges over HTTP while messages are sent: the rows of its directory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from config.scram import hash_password
from spark_bridge.arrow.schema import TABLES
from spark_bridge.errors import LakeError
from spark_bridge.read.scan import plan_read, scan
from tests.support.process.command import penstock
from tests.support.process.gateway_process import StartGateway
from tests.support.process.stomp_py import Client

VERIFIERS = "".join(f"\n      - {text}" for text in hash_password("secret", 4096))
CONFIG = f"""\
store:
  segment-bytes: 64 KiB
users:
  clerk:
    groups: [clerks]
    verifiers:{VERIFIERS}
  reader:
    groups: [readers]
    verifiers:{VERIFIERS}
permissions:
  - {{match: ">", read: [readers, clerks], write: clerks, admin: clerks, export: readers}}
"""
COUNT = 200
PAUSE_AT = 130
LIMIT_S = 240.0


def test_rows_are_those_of_the_directory(
    start_gateway: StartGateway, unique: Callable[[str], str], tmp_path: Path
) -> None:
    gateway = start_gateway(CONFIG)
    orders = unique("orders")
    client = Client(gateway, "1.2").connect("clerk", "secret")
    client.subscribe(f"/queue/{orders}", "client-individual", **{"activemq.prefetchSize": "10"})
    is_under_way, was_read = threading.Event(), threading.Event()

    def send() -> None:
        for number in range(COUNT):
            client.send(f"/queue/{orders}", f"{number:03}" + "x" * 3000, priority=4 + number % 3)
            if number == COUNT // 4:
                is_under_way.set()
            if number == PAUSE_AT:
                assert was_read.wait(LIMIT_S)

    url = gateway.http_url.replace("http://", "http://reader:secret@")
    sender = threading.Thread(target=send)
    sender.start()
    try:
        assert is_under_way.wait(LIMIT_S)
        assert rows_of_both(url, gateway.data) < COUNT
        was_read.set()
        deadline = time.monotonic() + LIMIT_S
        while rows_of_both(url, gateway.data) < COUNT:
            assert time.monotonic() < deadline, "the last messages are not published"
    finally:
        was_read.set()
        sender.join()
    words = ["export", "--data", gateway.http_url.replace("http://", "http://reader@"), "--destination", ">"]
    done = penstock(*words, "--to", str(tmp_path), "--master", "none", "--json", PENSTOCK_PASSWORD="secret")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["rows"], told["note"]) == (COUNT, ""), "it had a lease, and has said how far it is"
    with pytest.raises(LakeError, match="answers 401: wrong or no credentials"):
        scan(gateway.http_url)
    client.close()


def rows_of_both(url: str, data: Path) -> int:
    """Compare all tables, as of the end of a read over HTTP; return the messages."""
    counts = []
    for table in TABLES:
        read = plan_read({"path": url, "table": table})
        rows = [row for task in range(read.tasks()) for batch in read.rows(task) for row in batch.to_pylist()]
        assert rows == scan(str(data), table=table, to_offset=read.plan.stop).read_all().to_pylist()
        counts.append(len(rows))
    return counts[0]
