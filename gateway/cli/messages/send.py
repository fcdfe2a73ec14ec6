"""``penstock send DEST [BODY]``: send messages and wait until each is confirmed."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import repeat
from time import monotonic
from typing import Final

from gateway.cli.shared.parsers import (
    CommandError,
    Subparsers,
    add_command,
    add_connection_arguments,
    add_json_argument,
)
from gateway.process import exit_codes

COUNT_MAX: Final = 1_000_000_000_000
PROGRESS_FROM_COUNT: Final = 1_000

# Set by the command itself, or by the protocol.
_OWN_HEADERS: Final = ("destination", "receipt", "content-length", "transaction", "persistent")


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "send",
        "send messages",
        "Send BODY, a file or standard input, and wait for the receipt of each message. "
        "UTF-8 without NUL is sent as a text message, anything else as a bytes message.",
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
    add_json_argument(parser, "print one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    try:
        headers = parse_headers(arguments.header)
        if not 1 <= arguments.count <= COUNT_MAX:
            raise ValueError(f"--count is {arguments.count}, allowed is 1 to {COUNT_MAX}")
        body = _body(arguments)
    except (ValueError, OSError) as error:
        raise CommandError(str(error)) from None
    headers["persistent"] = "true" if arguments.persistent else "false"
    if arguments.bytes or not is_text(body):
        headers["content-length"] = str(len(body))

    from tqdm import tqdm

    from gateway.cli.shared.stomp_client import Sender, StompClient, destination_header

    destination = destination_header(arguments.destination)
    sender = None
    started_s = monotonic()
    try:
        client = StompClient(arguments.url, arguments.user)
        client.connect()
        sender = Sender(client, destination)
        is_quiet = arguments.count < PROGRESS_FROM_COUNT or not sys.stderr.isatty()
        sender.send_all(
            tqdm(repeat((headers, body), arguments.count), total=arguments.count, unit="msg", disable=is_quiet)
        )
        client.disconnect()
    except CommandError as error:
        confirmed = f" ({sender.confirmed_count} of {arguments.count} confirmed)" if sender is not None else ""
        raise CommandError(f"{error}{confirmed}", error.exit_code) from None
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
