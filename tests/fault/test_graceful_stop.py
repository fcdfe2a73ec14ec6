"""A stop of a real gateway while consumers hold messages, with stomp.py."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from gateway.process import exit_codes
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import LIMIT_S, Client
from tests.support.process.waiting import wait_until

HANGING = "consumequeue/9/0/0.cq"  # a file that requests may read
LONG = "stop: {drain-time-ms: 10m}\n"


def log_of(gateway: GatewayProcess) -> str:
    return gateway.log.read_text(errors="replace")


def begin_stop(gateway: GatewayProcess) -> None:
    gateway.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping: up to" in log_of(gateway), "the stop waits")


def worker_of(gateway: GatewayProcess, queue: str, *bodies: str) -> Client:
    """Return a client that holds these messages; another waits behind them."""
    worker = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    size = str(len(bodies))
    worker.subscribe(queue, "client-individual", **{"activemq.prefetchSize": size})
    for body in (*bodies, "behind"):
        worker.send(queue, body)
    return worker


def rest_of(gateway: GatewayProcess, queue: str, count: int) -> list[tuple[str, str]]:
    """Return the messages of the next start, each with whether it was delivered before."""
    gateway.start()
    reader = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    reader.subscribe(queue, "client-individual")
    messages = [reader.message() for _ in range(count)]
    with reader.receipt() as receipt:
        reader.connection.begin("t", headers={"receipt": receipt})
    assert reader.nothing_came()
    reader.close()
    return [(one.body, one.headers.get("redelivered", "false")) for one in messages]


def test_what_is_settled_in_time_does_not_come_again(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    gateway = start_gateway(LONG)
    queue, answers = f"/queue/{unique('work')}", f"/queue/{unique('answers')}"
    worker = worker_of(gateway, queue, "first", "second")
    held = [worker.message(), worker.message()]
    producer = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    begin_stop(gateway)

    assert gateway.get("/readyz") == (503, "unavailable: stopping\n")
    assert gateway.get("/healthz") == (200, "ok\n")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((gateway.stomp_host, gateway.stomp_port), LIMIT_S)
    producer.connection.send(queue, "late", headers={"receipt": "late", "persistent": "true"})
    wait_until(lambda: len(gateway.get_json("/api/stat")["blocked_producers"]) == 1, "the producer waits")
    (waiting,) = gateway.get_json("/api/stat")["blocked_producers"]
    assert "stopping: the gateway stops" in str(waiting)
    (consumer,) = gateway.get_json("/api/stat")["consumers"]
    assert consumer["gate"].startswith("stopping: ")

    worker.send(answers, "answer")  # its connection holds messages
    worker.ack(held[0])
    worker.ack(held[1])
    assert gateway.wait() == exit_codes.OK
    assert worker.nothing_came()
    assert "the gateway is shutting down" in producer.error().headers["message"]
    assert producer.inbox.receipts.empty(), "what waited was not accepted"
    assert "stopping: consumers hold nothing any more" in log_of(gateway)
    assert rest_of(gateway, queue, 1) == [("behind", "false")]
    gateway.terminate()
    assert rest_of(gateway, answers, 1) == [("answer", "false")]


def test_what_is_not_settled_comes_again(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    gateway = start_gateway("stop: {drain-time-ms: 200ms}\n")
    queue = f"/queue/{unique('work')}"
    worker = worker_of(gateway, queue, "first", "second")
    worker.ack(worker.message())
    worker.message()
    wait_until(lambda: worker.inbox.messages.qsize() == 1, "the place of the first is taken")
    assert gateway.terminate(is_patient=True) == exit_codes.OK
    assert "(stop.drain-time-ms) without the settlements of 2 messages that 1 consumer holds" in log_of(gateway)
    assert [body for body, _ in rest_of(gateway, queue, 2)] == ["second", "behind"]


def test_a_second_signal_ends_the_wait(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    gateway = start_gateway(LONG)
    queue = f"/queue/{unique('work')}"
    worker = worker_of(gateway, queue, "first")
    worker.message()
    begin_stop(gateway)
    assert gateway.terminate(is_patient=True) == exit_codes.OK
    assert "(a second signal) without the settlements of 1 message that 1 consumer holds" in log_of(gateway)
    assert [body for body, _ in rest_of(gateway, queue, 2)] == ["first", "behind"]


def test_zero_waits_for_nobody(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    gateway = start_gateway("stop: {drain-time-ms: 0}\n")
    queue = f"/queue/{unique('work')}"
    worker = worker_of(gateway, queue, "first")
    worker.message()
    assert gateway.terminate(is_patient=True) == exit_codes.OK
    assert "without the settlements" not in log_of(gateway)
    assert [body for body, _ in rest_of(gateway, queue, 2)] == ["first", "behind"]


def test_sends_over_http_are_refused(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    gateway = start_gateway(LONG)
    queue = f"/queue/{unique('work')}"
    worker = worker_of(gateway, queue, "first")
    held = worker.message()
    begin_stop(gateway)
    name = queue.removeprefix("/queue/")
    status, text = gateway.get(f"/api/destinations/queue:{name}/messages", {"body": "late"})
    assert (status, "stopping" in text) == (503, True), text
    worker.ack(held)
    assert gateway.wait() == exit_codes.OK


def test_a_connection_that_only_listens_ends_at_once(start_gateway: StartGateway) -> None:
    gateway = start_gateway(LONG)
    client = raw_stomp.client(gateway)
    assert gateway.terminate(is_patient=True) == exit_codes.OK
    assert "stopping: up to" not in log_of(gateway)
    client.close()


def test_a_request_that_hangs_in_the_file_system_is_given_up(start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    hanging = gateway.data / HANGING
    hanging.parent.mkdir(parents=True)
    os.mkfifo(hanging)  # the thread that opens it waits for a writer
    address = urlsplit(gateway.http_url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as asking:
        asking.sendall(f"GET /api/store/file?path={HANGING} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        for _ in range(3):
            assert gateway.get("/healthz")[0] == 200  # the loop has turned, so the thread has its work
        assert gateway.terminate() == exit_codes.OK
    hanging.unlink()
    assert "stopping: a request still waits for files after 2 s, and is given up" in log_of(gateway)


def test_a_pipe_in_place_of_the_configuration_keeps_no_reload_and_no_stop_waiting(start_gateway: StartGateway) -> None:
    gateway = start_gateway("permissions: [{match: '>', read: [], write: [], admin: '*'}]\n")
    path = gateway.configs[0]
    path.unlink()
    os.mkfifo(path)
    status, text = gateway.get("/api/reload", {})
    assert (status, "it is no file that can be read again" in text) == (409, True), text
    assert gateway.get("/api/destinations/q/messages", {"body": "x"})[0] == 403, "the permissions are in force"
    assert gateway.terminate() == exit_codes.OK
