"""``penstock delete``: removes a queue or a topic that nobody uses."""

from __future__ import annotations

import argparse
import json

from gateway.cli.shared.http_client import add_http_arguments, authorization_of, fetch
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument, destination_argument
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "delete",
        "remove a queue or a topic",
        "Remove a queue or a topic that has no consumers and no subscriptions.  --force is needed if messages "
        "wait in it or are scheduled for it.",
    )
    parser.add_argument("destination", metavar="DEST", type=destination_argument, help="the queue or topic")
    parser.add_argument("--force", action="store_true", help="even if messages wait in it or are scheduled for it")
    add_http_arguments(parser)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    asked = {"destination": arguments.destination, "force": arguments.force}
    done = fetch(arguments.http, "/api/delete", authorization_of(arguments.user), "POST", asked, has="deleted")
    print(json.dumps(done) if arguments.json else f"deleted {done['deleted']}")
    return exit_codes.OK
