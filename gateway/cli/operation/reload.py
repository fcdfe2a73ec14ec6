"""``penstock reload``: makes the running gateway read its configuration again."""

from __future__ import annotations

import argparse
import json

from gateway.cli.shared.http_client import add_http_arguments, authorization_of, fetch
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "reload",
        "make the gateway read its configuration again",
        "Make the running gateway read its configuration files again, as SIGHUP does.  Users, groups and permissions "
        "hold at once; what else has changed is listed and needs a restart.  If a file has errors nothing changes.",
    )
    add_http_arguments(parser)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    done = fetch(arguments.http, "/api/reload", authorization_of(arguments.user), "POST", has="applied")
    if arguments.json:
        print(json.dumps(done))
        return exit_codes.OK
    lines = [*done["applied"], *(f"needs a restart: {line}" for line in done["restart"])]
    print("\n".join(lines or ["nothing has changed"]))
    return exit_codes.OK
