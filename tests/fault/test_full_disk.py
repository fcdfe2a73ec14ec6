"""A disk without space: producers stop, nothing confirmed is lost, everything goes on when there is space again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import StartGateway
from tests.support.process.traffic import Consumer, Ledger, Producer, join
from tests.support.process.waiting import wait_until

DISK_MIB = 48
FILLER_MIB = 32
KEPT_FREE_MIB = 18
UNWATCHED = "limits: {min-disk-free: 0}\n"
MESSAGES = 25_000  # of 1 KiB: more than fits beside the filler, less than fits without it


def crowded(mount_tmpfs: Callable[[str], Path], disk_mib: int = DISK_MIB) -> tuple[Path, Path]:
    """Return a small disk and a large file on it."""
    small_disk = mount_tmpfs(f"size={disk_mib}m")
    filler = small_disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, FILLER_MIB * 1024 * 1024)
    return small_disk, filler


def test_full_disk_stops_producers_and_loses_nothing(
    mount_tmpfs: Callable[[str], Path], start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    destination = f"/queue/{unique('full')}"
    small_disk, filler = crowded(mount_tmpfs)
    gateway = start_gateway(configurations.small_segments() + UNWATCHED, data=small_disk / "data")
    assert gateway.get("/healthz")[0] == 200
    ledger = Ledger()
    producer = Producer(gateway, destination, ledger, count=MESSAGES)
    wait_until(lambda: gateway.get("/healthz")[0] == 503, "/healthz says 503 on a full disk", limit_s=60.0)
    assert "No space left on device" in gateway.get("/healthz")[1]
    wait_until(lambda: ledger.stands_still(), "receipts on their way have come")
    assert producer.is_alive(), f"the producer was refused instead of made to wait: {producer.failure!r}"
    assert len(ledger.confirmed) < MESSAGES, "everything was confirmed: the disk was never full"
    assert gateway.get("/healthz")[0] == 503

    filler.unlink()
    wait_until(lambda: gateway.get("/healthz")[0] == 200, "/healthz says 200 with space again", limit_s=60.0)
    join(producer)
    assert len(ledger.confirmed) == MESSAGES
    gateway.kill9()
    gateway.restart()
    last = Producer(gateway, destination, ledger, count=1)
    join(last)
    join(Consumer(gateway, destination, ledger, until=ledger.next_number - 1))
    ledger.check_end()


def test_unless_told_otherwise_producers_wait_before_the_disk_is_full_and_acknowledgements_go_on(
    mount_tmpfs: Callable[[str], Path], start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    destination = f"/queue/{unique('nearly-full')}"
    small_disk, filler = crowded(mount_tmpfs, DISK_MIB + KEPT_FREE_MIB)
    gateway = start_gateway(configurations.small_segments(), data=small_disk / "data")
    ledger = Ledger()
    producer = Producer(gateway, destination, ledger, count=MESSAGES)

    def waits_for_free_space() -> bool:
        # Until the disk is looked at again it may wait because as much has come as was left before.
        reasons = [one["reason"] for one in gateway.get_json("/api/stat")["blocked_producers"]]
        return len(reasons) == 1 and reasons[0].startswith("disk: ") and "(min-disk-free)" in reasons[0]

    wait_until(waits_for_free_space, "the producer waits for free space", limit_s=60.0)
    assert gateway.get("/healthz")[0] == 200, "the disk is full"
    consumer = raw_stomp.client(gateway)
    raw_stomp.subscribe(consumer, destination, prefetch=1)
    raw_stomp.send_ack(consumer, raw_stomp.message(consumer), receipt="acknowledged")
    consumer.flush()
    assert "acknowledged" in [consumer.next_frame().head.headers.get("receipt-id") for _ in range(2)]
    consumer.close()

    filler.unlink()
    join(producer)
    assert len(ledger.confirmed) == MESSAGES
