"""What an operator meets: a full disk at the stop, a fault of ours, too few descriptors, a port in use, hang-ups."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gateway.cli.shared.blocking_client import BlockingClient
from gateway.process import exit_codes
from protocols.stomp.codec.frames import SEND
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import ROOT, GatewayProcess, StartGateway
from tests.support.process.waiting import wait_until

LIMIT_S = 60.0
CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
FULL_BYTES = 64 * 1024  # files may not grow past it: room for the text of the log, none for the message


def log_of(gateway: GatewayProcess) -> str:
    return gateway.log.read_text(errors="replace")


def block(gateway: GatewayProcess, full: str) -> BlockingClient:
    """Fill the disk; return the producer whose message did not fit."""
    resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (FULL_BYTES, resource.RLIM_INFINITY))
    producer = raw_stomp.client(gateway)
    producer.send(SEND, [("destination", full), ("persistent", "true"), ("receipt", "1")], b"x" * 100_000)
    producer.flush()
    wait_until(lambda: gateway.get("/healthz")[0] == 503, "the disk is full", limit_s=LIMIT_S)
    return producer


def heal(gateway: GatewayProcess) -> None:
    resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wait_until(lambda: gateway.get("/healthz")[0] == 200, "there is space again", limit_s=LIMIT_S)


def test_a_full_disk_is_in_the_log_once_and_so_is_its_end(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway(configurations.small_segments())
    first = block(gateway, f"/queue/{unique('full')}")
    second = raw_stomp.client(gateway)
    second.send(SEND, [("destination", f"/queue/{unique('other')}"), ("persistent", "true"), ("receipt", "2")], b"x")
    second.flush()
    wait_until(lambda: "producers wait: 127.0.0.1:" in log_of(gateway), "who waits is in the log", limit_s=LIMIT_S)
    heal(gateway)
    wait_until(lambda: "no producer waits any more" in log_of(gateway), "the end is in the log", limit_s=LIMIT_S)
    text = log_of(gateway)
    assert text.count("store: failed, nothing persistent is accepted: ") == 1
    assert text.count("store: healed, it accepts again") == 1
    for client in (first, second):
        client.close()


def test_a_blocked_producer_that_hangs_up_takes_its_messages_back(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    config = configurations.small_segments() + "stomp:\n  limits:\n    block-park-bytes: 1 KiB\n"
    gateway = start_gateway(config)
    queue = unique("taken-back")
    keeper = block(gateway, f"/queue/{unique('full')}")
    producer = raw_stomp.client(gateway)
    for number in range(50):
        producer.send(SEND, [("destination", f"/queue/{queue}"), ("persistent", "true")], b"%d" % number * 100)
    producer.flush()
    wait_until(lambda: len(gateway.get_json("/api/stat")["blocked_producers"]) == 1, "it waits", limit_s=LIMIT_S)
    producer.close()
    wait_until(lambda: "lost with the connection: " in log_of(gateway), "the hang-up is noticed", limit_s=LIMIT_S)
    assert "penstock_dropped_frames_total 0.0" not in gateway.get("/metrics")[1]
    heal(gateway)
    destinations = gateway.get_json("/api/stat")["destinations"]
    assert [one["enqueued"] for one in destinations if one["name"] == queue] == [0]
    keeper.close()


def test_a_stop_while_the_disk_is_full_says_that_it_was_not_clean(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway(configurations.small_segments())
    producer = block(gateway, f"/queue/{unique('full')}")
    assert gateway.terminate() == exit_codes.UNCLEAN
    text = log_of(gateway)
    assert "stopped without closing the store cleanly: " in text
    assert "Traceback" not in text
    producer.close()
    gateway.start()
    assert "store: not closed cleanly" in log_of(gateway)
    assert gateway.terminate() == exit_codes.OK


BROKEN_SESSION = """
import sys
from protocols.stomp.session.stomp_session import StompSession

class Broken(StompSession):
    def receive_data(self, octets, now_ms):
        assert b"BREAK" not in octets, "planted"
        super().receive_data(octets, now_ms)

import gateway.connections.listener
gateway.connections.listener.StompSession = Broken
from gateway.__main__ import main
sys.exit(main())
"""
BROKEN_ENGINE = """
import sys
from engine.broker import Broker
from engine.acceptance import Acceptance

class BrokenAcceptance(Acceptance):
    __slots__ = ()

    def accept(self, destination, message):
        assert b"BREAK" not in message.body, "planted"
        super().accept(destination, message)

class Broken(Broker):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.acceptance.__class__ = BrokenAcceptance

import gateway.app
gateway.app.Broker = Broken
from gateway.__main__ import main
sys.exit(main())
"""


@contextmanager
def running(*command: str, open_files: tuple[int, int] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that writes to pipes; it ends with the test, whatever becomes of that.

    One that is left behind is found by whichever later test the garbage collector runs in.
    """
    limit = None if open_files is None else partial(resource.setrlimit, resource.RLIMIT_NOFILE, open_files)
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def arguments(data: Path) -> list[str]:
    return ["run", "--json", "--data", str(data), "--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]


@contextmanager
def started(code: str, data: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a gateway with a planted defect; give it with its port."""
    with running("-c", code, *arguments(data)) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        yield process, int(line.split("tcp://127.0.0.1:")[1].split('"')[0])


def test_a_fault_of_ours_in_the_engine_stops_the_process_and_the_next_start_recovers(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        started(BROKEN_ENGINE, data) as (process, port),
        socket.create_connection(("127.0.0.1", port), LIMIT_S) as peer,
    ):
        peer.sendall(CONNECT + b"SEND\ndestination:/queue/a\npersistent:true\n\nBREAK\0")
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == exit_codes.FAILED
    assert b"the engine failed; stopping" in said and b"AssertionError: planted" in said
    gateway = GatewayProcess(data, [], tmp_path / "log")
    gateway.start()
    assert "store: not closed cleanly" in log_of(gateway)
    gateway.dispose()


def test_a_fault_of_ours_in_a_session_ends_its_connection_and_nothing_else(tmp_path: Path) -> None:
    with started(BROKEN_SESSION, tmp_path / "data") as (process, port):
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as other:
            other.sendall(CONNECT)
            assert other.recv(1_000).startswith(b"CONNECTED")
            with socket.create_connection(("127.0.0.1", port), LIMIT_S) as peer:
                peer.sendall(b"BREAK")
                answer = b""
                while octets := peer.recv(1_000):
                    answer += octets
                assert answer.startswith(b"ERROR")
            other.sendall(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
            assert other.recv(1_000).lstrip().startswith(b"RECEIPT")
        process.terminate()
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == exit_codes.OK
    assert b"a defect of the gateway while receiving" in said and b"AssertionError: planted" in said


def test_descriptors(tmp_path: Path) -> None:
    hard = 1_000
    with running("-m", "gateway", *arguments(tmp_path / "data"), open_files=(400, hard)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
        process.terminate()
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == exit_codes.OK
    assert b"at most 616 connections instead of 10000" in said


def test_with_too_few_descriptors_the_gateway_does_not_start(tmp_path: Path) -> None:
    with running("-m", "gateway", *arguments(tmp_path / "data"), open_files=(300, 300)) as process:
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == exit_codes.FAILED
    assert b"this process may open 300 files; 448 at least are needed" in said
    assert not (tmp_path / "data").exists()


def test_the_hint_of_scripts_run_is_right_from_everywhere() -> None:
    text = (ROOT / "scripts" / "run").read_text()
    assert "export --data '$root/data'" in text and "cat <<TEXT" in text
    assert os.access(ROOT / "scripts" / "run", os.X_OK)


def test_times_are_measured_where_the_configuration_asks_for_them(
    start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    gateway = start_gateway("metrics: {histograms: true}\n")
    queue = f"/queue/{unique('timed')}"
    client = raw_stomp.client(gateway)
    for _ in range(2):
        client.send(SEND, [("destination", queue), ("persistent", "true")], b"x")
    raw_stomp.subscribe(client, queue, prefetch=2)
    held = raw_stomp.message(client)
    raw_stomp.message(client)
    raw_stomp.send_ack(client, held, "acked")
    client.flush()

    def counted() -> tuple[int, ...]:
        lines = dict(line.split() for line in gateway.get("/metrics")[1].splitlines() if "_seconds_count" in line)
        return tuple(
            int(float(lines[f"penstock_{name}_seconds_count"]))
            for name in ("publish_to_deliver", "publish_to_acknowledge", "sync")
        )

    wait_until(lambda: counted()[:2] == (2, 1), "both deliveries and the acknowledgement count", limit_s=LIMIT_S)
    wait_until(lambda: counted()[2] > 0, "syncs count", limit_s=LIMIT_S)
    client.close()
