"""A disk that fails under the real process: who sends waits with a reason, nothing is confirmed that is not safe."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from gateway.process import exit_codes
from protocols.stomp.codec.frames import ACK, BEGIN, COMMIT, SEND
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.ailing_gateway import HANGS, heal, write_faults
from tests.support.process.gateway_process import ROOT, GatewayFailed, GatewayProcess, StartGateway
from tests.support.process.traffic import Consumer, Ledger, Producer, join
from tests.support.process.waiting import wait_until

AILING: Final = "tests.support.process.ailing_gateway"
LIMIT_S: Final = 60.0
MESSAGES: Final = 3_000
SEGMENT: Final = "/commitlog/"


def reasons(gateway: GatewayProcess) -> list[str]:
    return [one["reason"] for one in gateway.get_json("/api/stat")["blocked_producers"]]


def confirmed(ledger: Ledger, count: int) -> Callable[[], bool]:
    return lambda: len(ledger.confirmed) >= count


FAULTS: Final = [
    pytest.param(("fdatasync", errno.EIO, SEGMENT), "Input/output error", id="sync"),
    pytest.param(("pwrite", errno.EIO, SEGMENT), "Input/output error", id="write"),
    pytest.param(("pwrite", errno.ENOSPC, SEGMENT), "No space left on device", id="full"),
    pytest.param(("*", errno.EROFS, ""), "Read-only file system", id="read-only"),
    pytest.param(("*", errno.EDQUOT, ""), "Disk quota exceeded", id="quota"),
]


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
def test_producers_wait_with_a_reason_and_go_on_without_a_restart(
    fault: tuple[str, int, str], reason: str, start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway(configurations.small_segments(), module=AILING)
    ledger = Ledger()
    destination, producer = into_a_failing_disk(gateway, unique, ledger, fault)
    wait_until(lambda: gateway.get("/healthz")[0] == 503, "/healthz says 503", limit_s=LIMIT_S)
    assert reason in gateway.get("/healthz")[1]
    wait_until(lambda: ledger.stands_still(), "receipts on their way have come")
    stopped_at = len(ledger.confirmed)
    assert stopped_at < MESSAGES, "everything was confirmed before the disk failed"
    assert producer.is_alive(), f"the producer was refused instead of made to wait: {producer.failure!r}"
    late = raw_stomp.client(gateway)
    late.send(SEND, [("destination", "/queue/late"), ("persistent", "true"), ("receipt", "late")], b"late")
    late.flush()
    wait_until(lambda: "store: queue://late" in reasons(gateway), "what the late sender waits for is told")

    heal(gateway.data)
    wait_until(lambda: gateway.get("/healthz")[0] == 200, "/healthz says 200 again", limit_s=LIMIT_S)
    assert late.next_frame().head.headers["receipt-id"] == "late"
    late.close()
    join(producer)
    assert len(ledger.confirmed) == MESSAGES
    empty_after_a_kill(gateway, destination, ledger)


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
def test_a_kill_while_the_disk_fails_takes_nothing_that_was_confirmed(
    fault: tuple[str, int, str], reason: str, start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway(configurations.small_segments(), module=AILING)
    ledger = Ledger()
    destination, producer = into_a_failing_disk(gateway, unique, ledger, fault)
    wait_until(lambda: reason in gateway.get("/healthz")[1], "the reason is told", limit_s=LIMIT_S)
    gateway.kill9()
    heal(gateway.data)
    join(producer)
    take_everything(gateway, destination, ledger)


def into_a_failing_disk(
    gateway: GatewayProcess, unique: Callable[[str], str], ledger: Ledger, fault: tuple[str, int, str]
) -> tuple[str, Producer]:
    """Let the disk fail while a producer sends to a new queue; return the queue and the producer."""
    destination = f"/queue/{unique('ailing')}"
    producer = Producer(gateway, destination, ledger, count=MESSAGES, held_at=1_000)
    wait_until(confirmed(ledger, 200), "the first receipts")
    write_faults(gateway.data, fault)
    producer.may_go_on.set()
    return destination, producer


def empty_after_a_kill(gateway: GatewayProcess, destination: str, ledger: Ledger) -> None:
    gateway.kill9()
    take_everything(gateway, destination, ledger)


def take_everything(gateway: GatewayProcess, destination: str, ledger: Ledger) -> None:
    """Start again and take everything: what was confirmed must be there."""
    gateway.start()
    last = Producer(gateway, destination, ledger, count=1)
    join(last)
    join(Consumer(gateway, destination, ledger, until=ledger.next_number - 1))
    ledger.check_end()


def test_what_a_failed_sync_lost_is_written_again_elsewhere(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    """The system may take for clean what it could not write: the same file is not believed a second time."""
    destination = f"/queue/{unique('rewritten')}"
    gateway = start_gateway(configurations.small_segments(), module=AILING)
    segments = sorted((gateway.data / "commitlog").glob("*.log"))
    write_faults(gateway.data, ("fdatasync", errno.EIO, SEGMENT))
    client = raw_stomp.client(gateway)
    client.send(SEND, [("destination", destination), ("persistent", "true"), ("receipt", "1")], b"once")
    client.flush()
    wait_until(lambda: gateway.get("/healthz")[0] == 503, "the sync has failed", limit_s=LIMIT_S)
    heal(gateway.data)
    assert client.next_frame().head.headers["receipt-id"] == "1"
    client.close()
    continued = sorted((gateway.data / "commitlog").glob("*.log"))
    assert len(continued) == len(segments) + 1, "the octets went to the file whose sync had failed"
    assert b"once" in continued[-1].read_bytes()
    gateway.kill9()
    gateway.start()
    reader = raw_stomp.client(gateway)
    raw_stomp.subscribe(reader, destination, prefetch=1)
    assert raw_stomp.message(reader).body == b"once"
    reader.close()


def test_neither_commit_nor_ack_is_confirmed_before_it_is_safe(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    queues = [f"/queue/{unique(name)}" for name in ("from", "to")]
    gateway = start_gateway(configurations.small_segments(), module=AILING)
    client = raw_stomp.client(gateway)
    assert list(client.publish([(queues[0], b"moved"), (queues[0], b"taken")])) == [0, 1]
    raw_stomp.subscribe(client, queues[0], prefetch=10)
    moved, taken = raw_stomp.message(client), raw_stomp.message(client)
    write_faults(gateway.data, ("fdatasync", errno.EIO, SEGMENT))
    client.send(BEGIN, [("transaction", "t")])
    client.send(SEND, [("destination", queues[1]), ("persistent", "true"), ("transaction", "t")], b"moved")
    client.send(ACK, [("id", moved.head.headers["ack"]), ("transaction", "t")])
    client.send(COMMIT, [("transaction", "t"), ("receipt", "commit")])
    client.send(ACK, [("id", taken.head.headers["ack"]), ("receipt", "ack")])
    client.flush()
    wait_until(lambda: gateway.get("/healthz")[0] == 503, "the sync has failed", limit_s=LIMIT_S)
    client._socket.settimeout(1.0)
    with pytest.raises(TimeoutError):
        client.next_frame()
    client.close()
    heal(gateway.data)
    wait_until(lambda: gateway.get("/healthz")[0] == 200, "the disk works", limit_s=LIMIT_S)
    gateway.kill9()
    gateway.start()
    bodies = []
    for queue in queues:
        reader = raw_stomp.client(gateway)
        list(reader.publish([(queue, b"end")]))
        raw_stomp.subscribe(reader, queue, prefetch=10)
        while (message := raw_stomp.message(reader)).body != b"end":
            bodies.append(message.body)
        reader.close()
    assert bodies.count(b"moved") == 1


def test_a_backlog_that_cannot_be_read_waits_for_the_disk(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    destination = f"/queue/{unique('backlog')}"
    config = configurations.small_segments() + "memory-limit-bytes: 1 MiB\n"
    gateway = start_gateway(config, module=AILING)
    ledger = Ledger()
    join(Producer(gateway, destination, ledger, count=MESSAGES))
    gateway.kill9()
    gateway.start()
    write_faults(gateway.data, ("pread", errno.EIO, SEGMENT))
    consumer = Consumer(gateway, destination, ledger, until=MESSAGES)
    wait_until(lambda: "Input/output error" in gateway.log.read_text(errors="replace"), "the log says why", LIMIT_S)
    assert consumer.is_alive() and not ledger.delivered
    heal(gateway.data)
    join(consumer)
    ledger.check_end()


def test_a_start_that_the_disk_fails_says_so_and_the_next_one_finds_everything(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    destination = f"/queue/{unique('start')}"
    gateway = start_gateway(configurations.small_segments(), module=AILING)
    ledger = Ledger()
    join(Producer(gateway, destination, ledger, count=500))
    gateway.kill9()
    for operation in ("pread", "fsync", "pwrite", "sync_directory", "create"):
        write_faults(gateway.data, (operation, errno.EIO, ""))
        with pytest.raises(GatewayFailed, match=r"ended with exit status 3[\s\S]*Input/output error") as failed:
            gateway.start()
        assert "Traceback" not in str(failed.value)
    heal(gateway.data)
    gateway.start()
    join(Consumer(gateway, destination, ledger, until=500))
    ledger.check_end()


def refused(data: Path) -> str:
    """Return what a start says that the disk refuses."""
    command = [sys.executable, "-m", "gateway", "run", "--data", str(data)]
    command += ["--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == exit_codes.STORE
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_a_read_only_directory_is_refused_with_its_name(mount_tmpfs: Callable[[str], Path]) -> None:
    read_only_disk = mount_tmpfs("size=1m,ro")
    said = refused(read_only_disk / "data")
    assert f"penstock: {read_only_disk}" in said and "Read-only file system" in said


def test_a_start_takes_the_room_that_the_disk_has_and_says_if_that_is_too_little(
    start_gateway: StartGateway, mount_tmpfs: Callable[[str], Path], unique: Callable[[str], str]
) -> None:
    disk = mount_tmpfs("size=300m")
    gateway = start_gateway(data=disk / "data")
    ledger = Ledger()
    destination = f"/queue/{unique('room')}"
    join(Producer(gateway, destination, ledger, count=50))
    gateway.kill9()
    foreign = disk / "foreign"
    free = os.statvfs(disk)
    foreign.write_bytes(bytes(free.f_bavail * free.f_frsize))
    gateway.start()  # the end of the segment before is given back, and two pages less than a whole one are free
    join(Consumer(gateway, destination, ledger, until=50))
    ledger.check_end()
    gateway.kill9()
    small = mount_tmpfs("size=64k")
    needs = r"No space left on device; a new segment of the log needs 69632 octets at least; the store cannot be opened"
    assert re.search(needs + r"; \d+ octets are free: make room on that disk", refused(small / "data"))


def test_a_disk_that_hangs_in_the_last_sync_does_not_hold_the_stop(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway(configurations.small_segments(), module=AILING)
    ledger = Ledger()
    producer = Producer(gateway, f"/queue/{unique('hanging')}", ledger, count=100)
    join(producer)
    write_faults(gateway.data, ("fsync", HANGS, "checkpoint"))
    assert gateway.terminate() == exit_codes.UNCLEAN
    assert "the disk has not answered for 10 s" in gateway.log.read_text()
    heal(gateway.data)
