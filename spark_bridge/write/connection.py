"""A task's connection to the gateway: transactions whose COMMIT is confirmed, by stomp.py."""

from __future__ import annotations

import queue
import socket
import ssl
from typing import Any, Final

import stomp
from stomp.exception import StompException

from spark_bridge.write.options import WriteOptions

CONNECT_TIME_S: Final = 30.0
KNOWN_BEFORE: Final = "duplicate id"  # the message of the ERROR for a transaction with a known id
_CONNECTED: Final = "CONNECTED"
_RECEIPT: Final = "RECEIPT"


class WriteFailed(Exception):
    """The gateway refused a message, or could not be reached; the text says why."""


class KnownBefore(Exception):
    """A transaction was not applied, because the gateway has its work already."""


def _why(address: tuple[str, int]) -> str:
    """Return the system's error for an address, which stomp.py does not show."""
    try:
        with socket.create_connection(address, CONNECT_TIME_S):
            return "it accepts connections, but no TLS with a certificate that this machine trusts"
    except OSError as error:
        return str(error)


class Connection(stomp.ConnectionListener):  # type: ignore[misc]
    """One connection; an ERROR ends it."""

    def __init__(self, options: WriteOptions) -> None:
        """Raises: WriteFailed."""
        self._options = options
        self._answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        address = (options.host, options.port)
        self._stomp = stomp.StompConnection12(
            [address],
            prefer_localhost=False,
            try_loopback_connect=False,
            reconnect_attempts_max=1,
            timeout=CONNECT_TIME_S,
            auto_content_length=False,
        )
        if options.is_tls:
            self._stomp.set_ssl([address], ssl_version=ssl.PROTOCOL_TLS_CLIENT)
        self._stomp.set_listener("answers", self)
        try:
            self._stomp.connect(options.user or None, options.password or None, wait=False)
        except (StompException, OSError):
            raise WriteFailed(f"{options.host}:{options.port} cannot be reached: {_why(address)}") from None
        self._await(_CONNECTED, "the login", CONNECT_TIME_S)

    def send(self, transaction: str, destination: str, body: bytes, headers: dict[str, str]) -> None:
        """Raises: WriteFailed."""
        self._do("send", destination, body, headers={**headers, "transaction": transaction})

    def begin(self, transaction: str) -> None:
        """Raises: WriteFailed."""
        self._do("begin", transaction)

    def end(self, transaction: str) -> None:
        """Commit a transaction, or abort it in a dry run; return once that is confirmed.

        Raises: KnownBefore, WriteFailed.
        """
        if self._options.is_dry_run:
            self._do("abort", transaction, headers={"receipt": transaction})
        else:
            self._do("commit", transaction, headers={"receipt": transaction})
        self._await(_RECEIPT, "a confirmation", self._options.timeout_s)

    def close(self) -> None:
        self._stomp.remove_listener("answers")
        try:
            self._stomp.disconnect()
        except (StompException, OSError):
            pass  # everything is confirmed, or has failed already

    # -- called by stomp.py, on its own thread

    def on_connected(self, frame: Any) -> None:
        self._answers.put((_CONNECTED, ""))

    def on_receipt(self, frame: Any) -> None:
        self._answers.put((_RECEIPT, ""))

    def on_error(self, frame: Any) -> None:
        self._answers.put((frame.headers.get("message", "ERROR"), str(frame.body)))

    def on_disconnected(self) -> None:
        self._answers.put(("lost the connection", ""))

    # -- the steps

    def _do(self, action: str, *given: Any, **asked: Any) -> None:
        try:
            getattr(self._stomp, action)(*given, **asked)
        except (StompException, OSError) as error:
            self._raise_answer(str(error))

    def _await(self, wanted: str, what: str, limit_s: float) -> None:
        try:
            word, text = self._answers.get(timeout=limit_s)
        except queue.Empty:
            raise WriteFailed(f"the gateway did not answer within {limit_s:g} s: {what} is missing") from None
        if word != wanted:
            self._raise(word, text)

    def _raise_answer(self, otherwise: str) -> None:
        """Raise for the ERROR that came, which says more than the end of the socket."""
        try:
            word, text = self._answers.get(timeout=1)
        except queue.Empty:
            raise WriteFailed(f"lost the connection: {otherwise}") from None
        self._raise(word, text)

    def _raise(self, word: str, text: str) -> None:
        if word == KNOWN_BEFORE:
            raise KnownBefore(text)
        raise WriteFailed(f"{word}: {text.strip()}" if text else word)
