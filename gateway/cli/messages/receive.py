"""``penstock receive DEST``: take messages and print them."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from typing import TYPE_CHECKING, Final

from gateway.cli.shared.parsers import (
    CommandError,
    Subparsers,
    add_command,
    add_connection_arguments,
    add_json_argument,
)
from gateway.process import exit_codes

if TYPE_CHECKING:
    from gateway.cli.shared.stomp_client import Received, StompClient

# Without --follow, --count and --timeout: the command ends after so long a silence.
IDLE_TIME_S: Final = 1.0
TIMEOUT_MAX_S: Final = 1_000_000.0
PREFETCH_MAX: Final = 1_000
_SUBSCRIPTION_ID: Final = "receive"


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "receive",
        "receive messages",
        "Print one message per line (with --json headers and all) and acknowledge each once it is "
        "printed. Without --follow and --count, end when nothing has come for --timeout.",
    )
    parser.add_argument("destination", metavar="DEST", help="NAME or queue://NAME, topic://NAME, /queue/NAME")
    parser.add_argument("--follow", action="store_true", help="wait for more until interrupted")
    parser.add_argument("--count", type=int, metavar="N", help="end after N messages")
    parser.add_argument(
        "--prefetch", type=int, metavar="N", help="how many may be on the way (default: --count, at most 1000)"
    )
    parser.add_argument(
        "--ack",
        choices=("auto", "client", "client-individual"),
        default="client-individual",
        help="acknowledgement mode; auto may lose what was not printed yet (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help=f"end after this long without a message (default: {IDLE_TIME_S:g}; with --follow or --count none)",
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--from-offset", metavar="N", help="read again without taking messages: a queue offset, first, last, next"
    )
    start.add_argument("--from-time", metavar="TIME", help="the same: 2026-01-31T12:00:00Z, or milliseconds since 1970")
    start.add_argument("--from-id", metavar="MESSAGE-ID", help="the same")
    add_connection_arguments(parser)
    add_json_argument(parser, "print one JSON document per line")


def run(arguments: argparse.Namespace) -> int:
    for name, value, minimum in (("count", arguments.count, 1), ("prefetch", arguments.prefetch, 0)):
        if value is not None and value < minimum:
            raise CommandError(f"--{name} is {value}, allowed is {minimum} or more")
    timeout_s = arguments.timeout
    if timeout_s is not None and not 0 <= timeout_s <= TIMEOUT_MAX_S:
        raise CommandError(f"--timeout is {timeout_s}, allowed is 0 to {TIMEOUT_MAX_S:g} seconds")
    if timeout_s is None and not arguments.follow and arguments.count is None:
        timeout_s = IDLE_TIME_S
    headers = {}
    if arguments.prefetch is not None:
        headers["activemq.prefetchSize"] = str(arguments.prefetch)
    elif "prefetchPolicy" not in arguments.url:
        # No more than we are going to take: the rest is for other consumers.
        headers["activemq.prefetchSize"] = str(min(arguments.count or PREFETCH_MAX, PREFETCH_MAX))
    for name in ("from-offset", "from-time", "from-id"):
        if (text := getattr(arguments, name.replace("-", "_"))) is not None:
            headers[name] = text

    from gateway.cli.shared.stomp_client import StompClient, destination_header

    client = StompClient(arguments.url, arguments.user)
    for note in client.notes:
        print(f"penstock: --url: {note}", file=sys.stderr)
    client.connect()
    client.subscribe(destination_header(arguments.destination), _SUBSCRIPTION_ID, arguments.ack, headers)
    received_count = _receive(client, arguments, timeout_s)
    # An orderly end, so that the last acknowledgement has arrived.
    client.disconnect()
    if arguments.count is not None and received_count < arguments.count:
        raise CommandError(f"{received_count} of {arguments.count} messages came", exit_codes.INCOMPLETE)
    return exit_codes.OK


def _receive(client: StompClient, arguments: argparse.Namespace, timeout_s: float | None) -> int:
    """Return how many messages came.  Raises: CommandError."""
    from gateway.cli.shared.stomp_client import Received

    count = 0
    while arguments.count is None or count < arguments.count:
        try:
            event = client.next_event(timeout_s)
        except KeyboardInterrupt:
            break  # the normal end of --follow; printed messages stay acknowledged
        if event is None:
            break
        client.raise_failure(event)
        if not isinstance(event, Received):
            continue
        sys.stdout.buffer.write(as_json(event) if arguments.json else event.body)
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()
        if arguments.ack != "auto":
            client.acknowledge(event.headers["ack"])
        count += 1
    return count


def as_json(message: Received) -> bytes:
    """Return one message as JSON: ``body`` if it is UTF-8, else ``body_base64``."""
    document: dict[str, object] = {
        "destination": message.headers.get("destination", ""),
        "message_id": message.headers.get("message-id", ""),
        "headers": dict(message.headers),
    }
    try:
        document["body"] = message.body.decode("utf-8")
    except UnicodeDecodeError:
        document["body_base64"] = base64.b64encode(message.body).decode("ascii")
    return json.dumps(document).encode("ascii")
