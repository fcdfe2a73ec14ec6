"""``penstock retry``: sends dead letters back to their original destinations."""

from __future__ import annotations

import argparse
import json
from typing import Final

from engine.store.plain_words import counted
from gateway.cli.shared.http_client import add_http_arguments, finish
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command, add_json_argument
from gateway.process import exit_codes

DEFAULT_QUEUE: Final = "ActiveMQ.DLQ"


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "retry",
        "send dead letters back to their original destinations",
        "Send the messages of a dead-letter queue back to where each came from: all, one, or those that a JMS "
        "selector matches.  Messages that arrive in the queue meanwhile stay.",
    )
    parser.add_argument("queue", nargs="?", default=DEFAULT_QUEUE, help="the dead-letter queue (default: %(default)s)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--id", metavar="MESSAGE-ID", help="only this message")
    which.add_argument("--filter", metavar="SELECTOR", default="", help="only messages that this JMS selector matches")
    parser.add_argument("--rate", metavar="N", type=_count, default=0, help="messages a second at most")
    parser.add_argument("--limit", metavar="N", type=_count, default=0, help="messages in all")
    add_http_arguments(parser)
    add_json_argument(parser, "print one JSON document at the end")


def run(arguments: argparse.Namespace) -> int:
    selector = arguments.filter
    if arguments.id is not None:
        quoted = arguments.id.replace("'", "''")
        selector = f"JMSMessageID = '{quoted}'"
    asked = {"queue": arguments.queue, "filter": selector, "rate": arguments.rate, "limit": arguments.limit}
    status = finish(arguments, "retry", asked)
    if arguments.json:
        print(json.dumps(status))
    else:
        origin = "its origin" if status["moved"] == 1 else "their origins"
        print(f"{counted(status['moved'], 'message')} of {status['queue']} went back to {origin}")
        if status["skipped"]:
            print(f"{status['skipped']} name no original destination and stay")
    if status["failure"]:
        raise CommandError(f"ended early: {status['failure']}", exit_codes.FAILED)
    if arguments.id is not None and status["moved"] == 0:
        raise CommandError(f"{arguments.queue} has no message {arguments.id} that could go back", exit_codes.FAILED)
    return exit_codes.OK


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at most 9 digits")
