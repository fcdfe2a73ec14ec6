"""``penstock pause``: lets a queue accept messages and hand none over."""

from __future__ import annotations

import argparse
import json

from gateway.cli.shared.http_client import add_http_arguments, authorization_of, fetch
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument, destination_argument
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "pause",
        "let a queue accept messages and hand none over",
        "Let a queue accept messages and hand none over, until 'penstock resume' or a restart of the gateway.  "
        "Consumers keep and settle what they hold; browsers, purges and retries go on.",
    )
    add_arguments(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("destination", metavar="DEST", type=destination_argument, help="the queue")
    add_http_arguments(parser)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's name says: pause or resume."""
    asked = {"destination": arguments.destination}
    path = f"/api/{arguments.command}"
    done = fetch(arguments.http, path, authorization_of(arguments.user), "POST", asked, has="paused")
    print(json.dumps(done) if arguments.json else f"{done['queue']} is {'paused' if done['paused'] else 'resumed'}")
    return exit_codes.OK
