"""The stage of an example: a real gateway with a time of day that the example sets, and clients of stomp.py."""

from __future__ import annotations

import json
import mmap
import queue
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import stomp

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT_S: Final = 60.0


class Morning:
    """A gateway with its store in ``data`` and a time of day that stands still until ``at`` sets it.

    inbox: the messages that have come to clients, each with the client's id.
    """

    def __init__(self, home: Path, configuration: str = "") -> None:
        """home: a directory for the store, the configuration and the gateway's log."""
        self.data = home / "data"
        self.inbox: queue.Queue[tuple[str, Any]] = queue.Queue()
        clock, config = home / "clock", home / "penstock.yaml"
        clock.write_bytes(bytes(8))
        config.write_text(configuration)
        with clock.open("r+b") as file:
            self._clock = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
        self.log = home / "gateway.log"
        self._command = [sys.executable, "-m", "examples.shared.clocked_gateway", str(clock), "run", "--json"]
        self._command += ["--config", str(config), "--data", str(self.data)]
        self._command += ["--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]
        self._clients: list[Client] = []

    def at(self, time: datetime) -> None:
        """Set the gateway's time of day."""
        self._clock[0] = round(time.timestamp() * 1000)

    def __enter__(self) -> Self:
        """Start the gateway."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the gateway did not start:\n{self.log.read_text()}")
        listener = urlsplit(json.loads(line)["listeners"]["stomp"])
        self.address = (str(listener.hostname), int(listener.port or 0))
        self.url = f"stomp://{self.address[0]}:{self.address[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the clients and the gateway."""
        for client in self._clients:
            client.close()
        self._process.terminate()
        self._process.communicate()

    def connect(self, client_id: str) -> Client:
        """Return a new client."""
        client = Client(self, client_id)
        self._clients.append(client)
        return client


class Client(stomp.ConnectionListener):  # type: ignore[misc]  # the library ships no types
    """A connection; its methods return when the gateway has confirmed what they ask."""

    def __init__(self, morning: Morning, client_id: str) -> None:
        self._client_id = client_id
        self._inbox = morning.inbox
        self._answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._asked = 0
        self._stomp = stomp.StompConnection12([morning.address], auto_content_length=False)
        self._stomp.set_listener("example", self)
        self._stomp.connect(wait=True, headers={"client-id": client_id})

    def send(self, destination: str, body: str, **headers: str) -> None:
        """Send a persistent text."""
        self._confirmed(self._stomp.send, destination, body, persistent="true", **headers)

    def subscribe(self, destination: str, prefetch: int) -> None:
        """Let messages come to the inbox, ``prefetch`` at most that are not settled."""
        window = {"activemq.prefetchSize": str(prefetch)}
        self._confirmed(self._stomp.subscribe, destination, destination, "client-individual", window)

    def ack(self, message: Any) -> None:
        self._confirmed(self._stomp.ack, message.headers["ack"])

    def nack(self, message: Any) -> None:
        self._confirmed(self._stomp.nack, message.headers["ack"])

    def close(self) -> None:
        self._stomp.disconnect()

    def _confirmed(self, ask: Callable[..., None], *given: Any, **headers: str) -> None:
        self._asked += 1
        ask(*given, receipt=str(self._asked), **headers)
        answer = self._answers.get(timeout=LIMIT_S)
        if answer != ("RECEIPT", str(self._asked)):
            raise RuntimeError(f"the gateway answered {answer}")

    # -- called by stomp.py, on its own thread

    def on_message(self, frame: Any) -> None:
        self._inbox.put((self._client_id, frame))

    def on_receipt(self, frame: Any) -> None:
        self._answers.put(("RECEIPT", frame.headers["receipt-id"]))

    def on_error(self, frame: Any) -> None:
        self._answers.put((frame.headers.get("message", "ERROR"), frame.body))
