"""``penstock replay``: sends the messages of one destination to another again, as new messages."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.store.plain_words import counted
from engine.values.errors import PenstockError
from gateway.answers.questions import WrongQuestion
from gateway.cli.shared.parsers import (
    CommandError,
    Subparsers,
    add_command,
    add_connection_arguments,
    add_json_argument,
)
from gateway.process import exit_codes

if TYPE_CHECKING:
    from gateway.cli.shared.stomp_client import Sender, Sending


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "replay",
        "send the messages of a destination again, to another",
        "Read messages from a store's log, settled ones too, and send them again in their order as new "
        "messages.  Nothing changes in the source.  Messages from AMQP clients are sent as a STOMP client would get "
        "them.",
    )
    parser.add_argument("source", metavar="SOURCE", help="the source: orders.eu or topic://prices")
    parser.add_argument("target", metavar="TARGET", help="the target: NAME or queue://NAME, topic://NAME, /queue/NAME")
    parser.add_argument("--data", metavar="DIR", default="data", help="directory of the store (default: %(default)s)")
    parser.add_argument("--from", metavar="TIME", help="store time: 2026-01-31T12:00:00Z, or milliseconds since 1970")
    parser.add_argument("--to", metavar="TIME")
    parser.add_argument("--from-offset", metavar="N", help="queue offset, in each priority's queue")
    parser.add_argument("--to-offset", metavar="N")
    parser.add_argument("--selector", default="", help="only messages that this JMS selector matches")
    parser.add_argument("--limit", metavar="N", type=int, default=0, help="messages in all (default: no limit)")
    parser.add_argument("--rate", metavar="N", type=float, default=0.0, help="messages a second at most")
    parser.add_argument("--dry-run", action="store_true", help="only count")
    add_connection_arguments(parser)
    add_json_argument(parser, "print one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    from engine.selector.evaluate import selector_of
    from engine.store.read.query import StoreQuery
    from engine.store.read.reader import StoreReader
    from gateway.answers.store_view import question_of
    from gateway.cli.dispatch import exit_code_of
    from gateway.cli.messages.replay_source import ReplaySource
    from gateway.cli.shared.stomp_client import Sender, StompClient, destination_header

    names = ("from", "to", "from-offset", "to-offset")
    asked = {name: getattr(arguments, name.replace("-", "_")) for name in names}
    for name in ("rate", "limit"):
        if not getattr(arguments, name) >= 0:  # nor NaN
            raise WrongQuestion(f"--{name} is {getattr(arguments, name):g}, allowed is 0 (no limit) or more")
    question = question_of(
        {"destination": arguments.source} | {name: text for name, text in asked.items() if text is not None}
    )
    selector = selector_of(arguments.selector)
    reader = StoreReader(arguments.data)
    source = ReplaySource(reader.store_id, selector, arguments.limit)
    sender: Sender | None = None
    try:
        with StoreQuery(reader) as query:
            messages = source.of(query.in_order(question.destination, question.bounds))
            if arguments.dry_run:
                for _ in _shown(messages, arguments):
                    pass
            else:
                client = StompClient(arguments.url, arguments.user)
                client.connect()
                sender = Sender(client, destination_header(arguments.target), arguments.rate)
                sender.send_all(_shown(messages, arguments))
                client.disconnect()
    except (CommandError, PenstockError, KeyboardInterrupt) as error:
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        code = exit_codes.INTERRUPTED if isinstance(error, KeyboardInterrupt) else exit_code_of(error)
        raise CommandError(f"{reason} ({_progress(sender)})", code) from None
    sent = sender.confirmed_count if sender is not None else 0
    if arguments.json:
        counts = {"found": source.found, "not_selected": source.not_selected, "converted": source.converted}
        print(json.dumps({**counts, "sent": sent}))
    else:
        print(f"{counted(source.found, 'message')} of {arguments.source}, {sent} sent to {arguments.target}")
        if source.not_selected:
            print(f"{source.not_selected} others do not match the selector")
        if source.converted:
            print(f"{source.converted} of them are from AMQP clients and are sent as a STOMP client would get them")
    return exit_codes.OK


def _shown(messages: Iterator[Sending], arguments: argparse.Namespace) -> Iterator[Sending]:
    """Yield the messages, with a progress bar if the output is a terminal."""
    from tqdm import tqdm

    is_quiet = arguments.json or not sys.stderr.isatty()
    yield from tqdm(messages, total=arguments.limit or None, unit="msg", disable=is_quiet)


def _progress(sender: Sender | None) -> str:
    return "nothing was sent" if sender is None else f"{sender.sent_count} sent, {sender.confirmed_count} confirmed"
