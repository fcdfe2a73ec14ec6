"""A STOMP server with a script, for tests of the command-line client without a gateway."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from types import TracebackType


@dataclass(frozen=True, slots=True)
class PeerFrame:
    command: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class StompPeer:
    """Serves one connection on a thread of its own; ``frames`` holds the client's frames.

    messages: (headers, body) to deliver at SUBSCRIBE.  refuse: command -> text of the ERROR that answers it, after
    which the connection closes.  hang_up_at: command at which the connection closes without an answer.
    """

    messages: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    refuse: dict[str, str] = field(default_factory=dict)
    hang_up_at: str = ""
    frames: list[PeerFrame] = field(default_factory=list)
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def said(self, command: str) -> list[PeerFrame]:
        """Return the client's frames of one command, once it has left."""
        assert self._thread is not None
        self._thread.join(timeout=20)
        assert not self._thread.is_alive(), "the client did not leave"
        return [frame for frame in self.frames if frame.command == command]

    def __enter__(self) -> StompPeer:
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.close()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # closed before a client came
        with connection:
            buffer = b""
            while True:
                octets = connection.recv(65536)
                if not octets:
                    return
                buffer += octets
                while (parsed := _parse(buffer)) is not None:
                    frame, buffer = parsed
                    self.frames.append(frame)
                    if not self._answer(connection, frame):
                        return

    def _answer(self, connection: socket.socket, frame: PeerFrame) -> bool:
        if frame.command == self.hang_up_at:
            return False
        receipt = frame.headers.get("receipt")
        if frame.command in self.refuse:
            about = {"receipt-id": receipt} if receipt is not None else {}
            connection.sendall(_encode("ERROR", {"message": self.refuse[frame.command], **about}, b"details"))
            return False
        if frame.command in ("CONNECT", "STOMP"):
            connection.sendall(_encode("CONNECTED", {"version": "1.2", "heart-beat": "0,0"}, b""))
        if receipt is not None:
            connection.sendall(_encode("RECEIPT", {"receipt-id": receipt}, b""))
        if frame.command == "SUBSCRIBE":
            for at, (headers, body) in enumerate(self.messages):
                own = {
                    "subscription": frame.headers["id"],
                    "message-id": f"m{at}",
                    "ack": f"a{at}",
                    "destination": frame.headers["destination"],
                    "content-length": str(len(body)),
                }
                connection.sendall(_encode("MESSAGE", own | headers, body))
        return frame.command != "DISCONNECT"


def _encode(command: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n".encode() + body + b"\0"


def _parse(buffer: bytes) -> tuple[PeerFrame, bytes] | None:
    buffer = buffer.lstrip(b"\n")
    head, end, rest = buffer.partition(b"\n\n")
    if not end:
        return None
    command, *lines = head.decode().split("\n")
    headers = dict(line.split(":", 1) for line in lines)
    if "content-length" in headers:
        size = int(headers["content-length"])
        if len(rest) <= size:
            return None
    else:
        size = rest.find(b"\0")
        if size < 0:
            return None
    return PeerFrame(command, headers, rest[:size]), rest[size + 1 :]
