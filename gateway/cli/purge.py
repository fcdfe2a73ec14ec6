"""``penstock purge``: what waits in a queue is dropped."""

from __future__ import annotations

import argparse
import json
from time import sleep
from typing import TYPE_CHECKING, Final

from engine.store.plain_words import counted
from gateway.cli import exit_codes
from gateway.cli.http_client import DEFAULT_URL, authorization_of, fetch
from gateway.cli.parsers import add_user_argument, destination_argument

if TYPE_CHECKING:
    from gateway.cli.parsers import Subparsers

POLL_INTERVAL_S: Final = 0.2


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "purge",
        help="drop what waits in a queue",
        description=(
            "Drop the messages that wait in a queue: all, or those that a JMS selector matches.  What consumers hold "
            "stays theirs.  The log keeps what was dropped for as long as its retention says."
        ),
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("destination", metavar="DEST", type=destination_argument, help="the queue")
    parser.add_argument("--filter", metavar="SELECTOR", default="", help="only what this JMS selector matches")
    parser.add_argument("--http", metavar="URL", default=DEFAULT_URL, help="HTTP listener (default: %(default)s)")
    add_user_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")


def run(arguments: argparse.Namespace) -> int:
    asked = {"destination": arguments.destination, "filter": arguments.filter}
    authorization = authorization_of(arguments.user)
    status = fetch(arguments.http, "/api/purge", authorization, "POST", asked)
    path = f"/api/purge/{status['purge']}"
    try:
        while not status["done"]:
            sleep(POLL_INTERVAL_S)
            status = fetch(arguments.http, path, authorization)
    except KeyboardInterrupt:
        status = fetch(arguments.http, path, authorization, "DELETE")
    if arguments.json:
        print(json.dumps(status))
    else:
        print(f"dropped {counted(status['dropped'], 'message')} of {status['queue']}")
    return exit_codes.OK
