"""``penstock send DEST [BODY]``: send messages and wait until each is confirmed."""

from __future__ import annotations

import argparse
import json
import sys
from time import monotonic
from typing import TYPE_CHECKING, Final

from gateway.cli.shared.parsers import add_connection_arguments
from gateway.process import exit_codes

if TYPE_CHECKING:
    from gateway.cli.shared.parsers import Subparsers
    from gateway.cli.shared.stomp_client import StompClient

# Unconfirmed messages on their way; enough to keep a group commit busy.
UNCONFIRMED_MAX: Final = 1_000
PROGRESS_FROM_COUNT: Final = 1_000

# Set by the command itself, or by the protocol.
_OWN_HEADERS: Final = ("destination", "receipt", "content-length", "transaction", "persistent")


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "send",
        help="send messages",
        description="Send BODY, a file or standard input, and wait for the receipt of each message. "
        "UTF-8 without NUL is sent as a text message, anything else as a bytes message.",
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("destination", metavar="DEST", help="NAME or queue://NAME, topic://NAME, /queue/NAME")
    parser.add_argument("body", metavar="BODY", nargs="?", help="the text to send; without it and --file, stdin")
    parser.add_argument("--file", metavar="FILE", help="send the content of FILE")
    parser.add_argument("--bytes", action="store_true", help="send a bytes message even if the content is text")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="send it N times (default: 1)")
    parser.add_argument(
        "--header", action="append", default=[], metavar="K:V", help="a header, as priority:9; may be repeated"
    )
    persistence = parser.add_mutually_exclusive_group()
    persistence.add_argument("--persistent", action="store_true", default=True, help="survive a restart (default)")
    persistence.add_argument("--non-persistent", dest="persistent", action="store_false", help="keep it only in memory")
    add_connection_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    try:
        headers = parse_headers(arguments.header)
        if arguments.count < 1:
            raise ValueError(f"--count is {arguments.count}, allowed is 1 or more")
        body = _body(arguments)
    except (ValueError, OSError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.USAGE
    headers["persistent"] = "true" if arguments.persistent else "false"
    if arguments.bytes or not is_text(body):
        headers["content-length"] = str(len(body))

    from gateway.cli.shared.stomp_client import ClientError, StompClient, destination_header

    destination = destination_header(arguments.destination)
    sender = None
    started_s = monotonic()
    try:
        client = StompClient(arguments.url, arguments.user)
        client.connect()
        sender = Sender(client, destination, body, headers)
        sender.send_all(arguments.count)
        client.disconnect()
    except ClientError as error:
        confirmed = f" ({sender.confirmed_count} of {arguments.count} confirmed)" if sender is not None else ""
        print(f"penstock: {error}{confirmed}", file=sys.stderr)
        return error.exit_code
    seconds = monotonic() - started_s
    if arguments.json:
        print(json.dumps({"destination": destination, "sent": arguments.count, "seconds": round(seconds, 3)}))
    else:
        print(f"sent {arguments.count} to {destination} in {seconds:.2f} s")
    return exit_codes.OK


def parse_headers(texts: list[str]) -> dict[str, str]:
    """Return the headers of ``--header K:V``.  Raises: ValueError."""
    headers: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name or "\n" in text or "\r" in text:
            raise ValueError(f"--header is {text!r}, allowed is NAME:VALUE on one line")
        if name in _OWN_HEADERS:
            raise ValueError(f"--header {name} is set by the command itself")
        headers[name] = value
    return headers


def is_text(body: bytes) -> bool:
    """Say whether ``body`` can be sent as a text message, whose end STOMP marks with a NUL."""
    if b"\0" in body:
        return False
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _body(arguments: argparse.Namespace) -> bytes:
    """Raises: ValueError, OSError."""
    if arguments.body is not None and arguments.file is not None:
        raise ValueError("BODY and --file together; allowed is one of them")
    if arguments.body is not None:
        # Octets on the command line that are no UTF-8 reach us as surrogates; send them unchanged.
        return str(arguments.body).encode("utf-8", "surrogateescape")
    if arguments.file is not None:
        with open(arguments.file, "rb") as file:
            return file.read()
    return sys.stdin.buffer.read()


class Sender:
    """Sends with a limited number of unconfirmed messages."""

    def __init__(self, client: StompClient, destination: str, body: bytes, headers: dict[str, str]) -> None:
        self._client = client
        self._destination = destination
        self._body = body
        self._headers = headers
        self._sent_count = 0
        self.confirmed_count = 0

    def send_all(self, count: int) -> None:
        """Send and wait until each message is confirmed.  Raises: ClientError."""
        from tqdm import tqdm

        is_quiet = count < PROGRESS_FROM_COUNT or not sys.stderr.isatty()
        with tqdm(total=count, unit="msg", disable=is_quiet) as progress:
            while self.confirmed_count < count:
                if self._sent_count < count and self._sent_count - self.confirmed_count < UNCONFIRMED_MAX:
                    self._sent_count += 1
                    headers = {**self._headers, "receipt": str(self._sent_count)}
                    self._client.send(self._destination, self._body, headers)
                    timeout_s: float | None = 0.0
                else:
                    timeout_s = None
                progress.update(self._take_receipts(timeout_s))

    def _take_receipts(self, timeout_s: float | None) -> int:
        """Return the number of confirmations; wait for at least one if ``timeout_s`` is None."""
        before_count = self.confirmed_count
        while (event := self._client.next_event(timeout_s)) is not None:
            self._client.raise_failure(event)
            # One receipt for each message: anything else answers no frame of ours.
            self.confirmed_count += 1
            timeout_s = 0.0
        return self.confirmed_count - before_count
