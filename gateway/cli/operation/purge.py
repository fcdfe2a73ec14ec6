"""``penstock purge``: drops the messages that wait in a queue."""

from __future__ import annotations

import argparse
import json

from engine.store.plain_words import counted
from gateway.cli.shared.http_client import add_http_arguments, finish
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument, destination_argument
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "purge",
        "drop the messages that wait in a queue",
        "Drop the messages that wait in a queue: all, or those that a JMS selector matches.  Consumers keep "
        "what they hold.  The log keeps dropped messages until its retention ends.",
    )
    parser.add_argument("destination", metavar="DEST", type=destination_argument, help="the queue")
    parser.add_argument("--filter", metavar="SELECTOR", default="", help="only messages that this JMS selector matches")
    add_http_arguments(parser)
    add_json_argument(parser, "print one JSON document at the end")


def run(arguments: argparse.Namespace) -> int:
    asked = {"destination": arguments.destination, "filter": arguments.filter}
    status = finish(arguments, "purge", asked)
    if arguments.json:
        print(json.dumps(status))
    else:
        print(f"dropped {counted(status['dropped'], 'message')} of {status['queue']}")
    return exit_codes.OK
