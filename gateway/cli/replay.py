"""``penstock replay``: messages that went through a destination are sent again, as new ones, to another."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from gateway.cli import exit_codes
from gateway.cli.parsers import add_connection_arguments

if TYPE_CHECKING:
    from engine.store.query import FoundMessage
    from gateway.cli.client import StompClient
    from gateway.cli.parsers import Subparsers

UNCONFIRMED_MAX: Final = 1_000

# Of the first sending: whether it had expired, in which transaction it came, what it was asked to confirm.
_LEFT_OUT: Final = frozenset(
    ("destination", "receipt", "content-length", "transaction", "persistent", "expires", "expiration", "message-id")
)


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="send what went through a destination again, to another",
        description="Read messages from a store's log, settled ones too, and send them again in their order as new "
        "messages.  Nothing that waits or is settled in the source changes.  Messages of AMQP clients are counted and "
        "left out.",
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SOURCE", help="whose messages: orders.eu or topic://prices")
    parser.add_argument("target", metavar="TARGET", help="where to: NAME or queue://NAME, topic://NAME, /queue/NAME")
    parser.add_argument("--data", metavar="DIR", default="data", help="directory of the store (default: %(default)s)")
    parser.add_argument("--from", metavar="TIME", help="store time: 2026-01-31T12:00:00Z, or milliseconds since 1970")
    parser.add_argument("--to", metavar="TIME")
    parser.add_argument("--from-offset", metavar="N", help="queue offset, in each priority's queue")
    parser.add_argument("--to-offset", metavar="N")
    parser.add_argument("--rate", metavar="N", type=float, default=0.0, help="messages a second at most")
    parser.add_argument("--dry-run", action="store_true", help="only count")
    add_connection_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    from engine.errors import PenstockError
    from engine.message import STOMP
    from engine.store.query import StoreQuery
    from engine.store.reader import StoreReader
    from gateway.cli.client import ClientError, StompClient, destination_header
    from gateway.store_view import question_of

    names = ("from", "to", "from-offset", "to-offset")
    asked = {name: getattr(arguments, name.replace("-", "_")) for name in names}
    try:
        if arguments.rate < 0:
            raise ValueError(f"--rate is {arguments.rate:g}, allowed is 0 (no limit) or more")
        question = question_of(
            {"destination": arguments.source} | {name: text for name, text in asked.items() if text is not None}
        )
    except ValueError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.USAGE
    counted = _Counted(STOMP)
    sender: Replayer | None = None
    try:
        with StoreQuery(StoreReader(arguments.data)) as query:
            messages = counted.of(query.in_order(question.destination, question.bounds))
            if arguments.dry_run:
                for _ in messages:
                    pass
            else:
                client = StompClient(arguments.url, arguments.user)
                client.connect()
                sender = Replayer(client, destination_header(arguments.target), arguments.rate)
                sender.send_all(messages)
                client.disconnect()
    except ClientError as error:
        confirmed = sender.confirmed_count if sender is not None else 0
        print(f"penstock: {error} ({confirmed} confirmed)", file=sys.stderr)
        return error.exit_code
    except PenstockError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.FAILED
    sent = sender.confirmed_count if sender is not None else 0
    if arguments.json:
        print(json.dumps({"found": counted.found, "left_out": counted.left_out, "sent": sent}))
    else:
        print(f"{counted.found} messages of {arguments.source}, {sent} sent to {arguments.target}")
        if counted.left_out:
            print(f"{counted.left_out} more are of AMQP clients and were left out")
    return exit_codes.OK


class _Counted:
    """Lets messages of one encoding through, and counts."""

    def __init__(self, encoding: int) -> None:
        self._encoding = encoding
        self.found = 0
        self.left_out = 0

    def of(self, messages: Iterator[FoundMessage]) -> Iterator[FoundMessage]:
        for message in messages:
            if message.encoding == self._encoding:
                self.found += 1
                yield message
            else:
                self.left_out += 1


class Replayer:
    """Sends with a bounded number of messages unconfirmed, at a rate."""

    def __init__(self, client: StompClient, destination: str, rate: float) -> None:
        self._client = client
        self._destination = destination
        self._rate = rate
        self._sent_count = 0
        self.confirmed_count = 0

    def send_all(self, messages: Iterator[FoundMessage]) -> None:
        """Send and wait until each message is confirmed.  Raises: ClientError."""
        started_s = monotonic()
        for message in messages:
            if self._rate:
                sleep(max(0.0, started_s + self._sent_count / self._rate - monotonic()))
            self._sent_count += 1
            headers = headers_of(message) | {"receipt": str(self._sent_count)}
            self._client.send(self._destination, message.body, headers)
            self._take_receipts(self._sent_count - UNCONFIRMED_MAX)
        self._take_receipts(self._sent_count)

    def _take_receipts(self, until_count: int) -> None:
        while self.confirmed_count < until_count:
            event = self._client.next_event(None)
            assert event is not None, "it waits for one"
            self._client.raise_failure(event)
            self.confirmed_count += 1


def headers_of(message: FoundMessage) -> dict[str, str]:
    """Return the headers of the new message: those of the old one's sender, and which one it is."""
    from engine.annotations import split_annotations

    headers: dict[str, str] = {}
    for name, value in split_annotations(message.headers):
        if name not in _LEFT_OUT:
            headers.setdefault(name, value)  # of two headers of one name the first counts
    headers["replayed-message-id"] = message.message_id
    headers["replayed-destination"] = message.destination
    headers["persistent"] = "true"
    headers["priority"] = str(message.jms_priority)
    if not message.is_text:
        headers["content-length"] = str(len(message.body))
    return headers
