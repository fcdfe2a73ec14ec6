"""The laws of a real gateway after hostile clients: nothing has died, nothing is kept, nothing is stuck."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from gateway.cli.shared.blocking_client import BlockingClient
from protocols.stomp.codec.frames import ABORT, ACK, BEGIN, DISCONNECT, MESSAGE, SEND, SUBSCRIBE
from tests.support.hostile.honest_clients import KEPT, LIMIT_S, honest_stomp
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.waiting import wait_until

# Signs of a defect of the gateway in its log.
FAULT_WORDS: Final = ("CRITICAL", "a defect of the gateway", "Task exception was never", "Exception in callback")
FAULT_METRICS: Final = (
    "penstock_session_faults_total",
    "penstock_conversion_faults_total",
    "penstock_schedule_aside",
    "penstock_spill_lost_messages_total",
)
# Metrics of what is there; less than nothing is a defect of the accounts.
COUNTS: Final = ("penstock_destination_", "penstock_memory_bytes", "penstock_unsettled_bytes", "penstock_pending_bytes")
MIB: Final = 1024 * 1024
END: Final = b"the end"
AT_ONCE: Final = 30  # queues that are emptied together
ROUNDS: Final = 50  # round trips before the next check


def metrics(gateway: GatewayProcess) -> dict[str, float]:
    """Return the gateway's metrics by name, with their labels as written; those without labels by name alone."""
    status, text = gateway.get("/metrics")
    assert status == 200, f"GET /metrics answered {status}: {text[:300]}"
    rows = (line.rpartition(" ") for line in text.split("\n") if line and line[0] != "#")
    return {name: float(value) for name, _, value in rows}


def memory_bytes(gateway: GatewayProcess) -> int:
    """Return the memory of the process."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{gateway.pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


def check_faults(gateway: GatewayProcess) -> None:
    """Fail if the gateway itself had a defect, by its log or its counters."""
    text = gateway.log.read_text(errors="replace")
    for word in FAULT_WORDS:
        at = text.find(word)
        assert at < 0, f"{word!r} in the log:\n{text[max(0, at - 1_500) : at + 6_000]}"
    assert gateway.is_running, f"the gateway has ended; its log: {text[-4_000:]}"
    now = metrics(gateway)
    faults = {name: now[name] for name in FAULT_METRICS if now[name]}
    assert not faults, f"defects of the gateway: {faults}; its log: {gateway.log.read_text(errors='replace')[-6_000:]}"


def check_nothing_held(gateway: GatewayProcess, connections: int = 0, but_http: bool = False) -> None:
    """Wait until only this many connections are left, and clients hold exactly nothing.

    but_http: do not wait for the end of clients that have come by HTTP; senders and browsers stay for a minute.
    """
    expected = {"penstock_connections_held_bytes": 0.0, "penstock_blocked_producers": 0.0}
    last: dict[str, float] = {}

    def is_so() -> bool:
        now = metrics(gateway)
        last.update({name: now[name] for name in ("penstock_connections", *expected)})
        left = last["penstock_connections"] - (_http_count(gateway) if but_http else 0)
        return left == connections and all(last[name] == value for name, value in expected.items())

    try:
        wait_until(is_so, f"{connections} connections and {expected}", LIMIT_S, poll_s=0.1)
    except AssertionError as error:
        raise AssertionError(f"{error}; found {last}") from None
    below = {name: value for name, value in metrics(gateway).items() if name.startswith(COUNTS) and value < 0}
    assert not below, f"counted too often, or settled twice: {below}"


def _http_count(gateway: GatewayProcess) -> int:
    rows = gateway.get_json("/api/connections")["connections"]
    return sum(row["protocol"] == "http" for row in rows)


def state_of(gateway: GatewayProcess) -> str:
    """Return the holders of memory and the waiting clients, for the report of a broken law.  It ends a hanging one."""
    if not gateway.is_running:
        return "the gateway has ended"
    try:
        now = metrics(gateway)
    except OSError as error:
        return f"the gateway does not answer ({error}); its threads:\n{gateway.stacks()}"
    told = [f"{name} {value:g}" for name, value in now.items() if value and "{" not in name and "_total" not in name]
    stat = gateway.get_json("/api/stat")
    told += [str(row) for row in stat["destinations"] if row["depth"] or row["in_flight"]]
    told += [str(row) for row in stat["consumers"]]
    return "\n".join(told)[:20_000]


class Drain:
    """Takes everything from all queues but the honest ones, and cancels all schedules."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._client = honest_stomp(gateway)

    def run(self) -> None:
        """Return once all queues are empty."""
        self._client.send(
            SEND, [("destination", "/topic/ActiveMQ.Scheduler.Management"), ("AMQ_SCHEDULER_ACTION", "REMOVEALL")]
        )
        self._client.flush()
        deadline = time.monotonic() + LIMIT_S
        while left := self._left():
            assert time.monotonic() < deadline, f"these queues are never empty: {left}; {self._gates(left)}"
            self._leave()
            self._client = honest_stomp(self._gateway)
            for number, row in enumerate(left[:AT_ONCE]):
                if row["is_paused"]:
                    self._gateway.get("/api/resume", {"destination": f"queue://{row['name']}"})
                # Some queues wait for a second consumer before the first delivery.
                for copy in range(2 if row["name"].startswith("gate.") else 1):
                    headers = [("id", f"{number}.{copy}"), ("destination", f"/queue/{row['name']}"), ("ack", "auto")]
                    self._client.send(SUBSCRIBE, headers)
            for _ in range(ROUNDS):
                self._read()
        self._leave()

    def _left(self) -> list[dict[str, Any]]:
        rows = self._gateway.get_json("/api/stat")["destinations"]
        return [
            row for row in rows if row["kind"] == "queue" and row["depth"] and not row["name"].startswith("honest.")
        ]

    def _read(self) -> None:
        """Take messages until a RECEIPT shows that all have come.  Its frame must not wait for room."""
        self._client.send(BEGIN, [("transaction", "t")])
        self._client.send(ABORT, [("transaction", "t"), ("receipt", "read")])
        while (frame := self._client.next_frame()).receipt != b"read" and frame.command == MESSAGE:
            pass
        assert frame.head.headers.get("receipt-id") == "read", f"{frame.head.headers} {frame.body!r}"

    def _leave(self) -> None:
        """End the subscriptions, then the connection: some queues have room for one consumer."""
        self._client.send(DISCONNECT, [("receipt", "left")])
        while self._client.next_frame().command == MESSAGE:
            pass
        self._client.close()

    def _gates(self, left: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = {row["name"] for row in left}
        return [row for row in self._gateway.get_json("/api/stat")["consumers"] if row["destination"] in names]


def kept_numbers(gateway: GatewayProcess) -> list[int]:
    """Take and return the messages of the queue that only keeps them, in order."""
    client: BlockingClient = honest_stomp(gateway)
    client.send(SEND, [("destination", KEPT), ("persistent", "true")], END)
    raw_stomp.subscribe(client, KEPT, prefetch=1_000)
    numbers = []
    while (message := raw_stomp.message(client)).body != END:
        numbers.append(int(message.body.removeprefix(b"honest:")))
        client.send(ACK, [("id", message.head.headers["ack"])])
    raw_stomp.send_ack(client, message, "taken")
    client.next_frame()
    client.close()
    return numbers
