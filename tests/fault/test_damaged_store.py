"""Octets that changed on the disk: never delivered, never silently skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from engine.store.read.reader import StoreReader
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayFailed, GatewayProcess, StartGateway

SEGMENT_HEADER_BYTES: Final = 4096
BODY: Final = b"a body that is easy to find"
COUNT: Final = 50


@pytest.fixture
def killed(start_gateway: StartGateway, unique: Callable[[str], str]) -> tuple[GatewayProcess, str]:
    """A gateway that has confirmed COUNT messages and was killed, and the queue they are in."""
    queue = f"/queue/{unique('damaged')}"
    gateway = start_gateway(configurations.small_segments())
    client = raw_stomp.client(gateway)
    assert len(list(client.publish([(queue, BODY)] * COUNT))) == COUNT
    client.close()
    gateway.kill9()
    return gateway, queue


def only_segment(gateway: GatewayProcess) -> Path:
    (segment,) = (gateway.data / "commitlog").glob("*.log")
    return segment


def overwrite(path: Path, position: int, octets: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(octets)


def test_flipped_octet_in_the_middle_is_refused_with_its_place(killed: tuple[GatewayProcess, str]) -> None:
    gateway, _ = killed
    segment = only_segment(gateway)
    middle = -1
    for _ in range(COUNT // 2):
        middle = segment.read_bytes().index(BODY, middle + 1)
    overwrite(segment, middle, b"A")
    gateway.is_damaged = True
    with pytest.raises(GatewayFailed, match="ended with exit status 3") as refused:
        gateway.start()
    text = str(refused.value)
    assert segment.name in text, f"the place is not named: {text}"
    assert "Traceback" not in text


def test_torn_tail_is_cut_and_everything_confirmed_is_there(killed: tuple[GatewayProcess, str]) -> None:
    gateway, queue = killed
    end = StoreReader(gateway.data).end().offset
    segment = only_segment(gateway)
    octets = segment.read_bytes()
    # Half a record, as a power cut leaves it: the head of a true one, the rest never written.
    torn_at = SEGMENT_HEADER_BYTES + end
    overwrite(segment, torn_at, octets[SEGMENT_HEADER_BYTES : SEGMENT_HEADER_BYTES + 60])
    gateway.start()
    log = gateway.log.read_text()
    assert "torn tail" in log and f"position {torn_at}" in log, f"the cut is not reported with its place: {log}"
    client = raw_stomp.client(gateway)
    raw_stomp.subscribe(client, queue, prefetch=COUNT)
    assert [raw_stomp.message(client).body for _ in range(COUNT)] == [BODY] * COUNT
    client.close()
    sender = raw_stomp.client(gateway)
    assert list(sender.publish([(queue, b"and on")])) == [0]
    sender.close()
