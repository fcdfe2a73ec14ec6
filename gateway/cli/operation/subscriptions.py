"""``penstock subscriptions``: lists durable subscriptions, and deletes those that were abandoned."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final
from urllib.parse import urlencode

from engine.store.plain_words import counted
from gateway.cli.shared.http_client import add_http_arguments, authorization_of, fetch
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument
from gateway.process import exit_codes
from gateway.process.log_lines import one_line

PATH: Final = "/api/subscriptions"
LIMIT: Final = 1_000


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "subscriptions",
        "list durable subscriptions, or delete one",
        "List the durable subscriptions and what waits for each, or delete one that was abandoned.",
    )
    commands = parser.add_subparsers(dest="subscriptions_command", metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="those made first come first", description="List them.")
    listing.add_argument(
        "search", metavar="TEXT", nargs="?", default="", help="only those whose client id, name, topic or owner has it"
    )
    deleting = commands.add_parser(
        "delete",
        help="delete one that has no consumers",
        description="Delete a durable subscription without consumers, whoever owns it; what waits for it is dropped.",
    )
    deleting.add_argument("name", metavar="NAME", help="as in 'list'")
    deleting.add_argument(
        "--client-id", metavar="ID", default="", help="as in 'list'; a shared subscription may have none"
    )
    for one in (listing, deleting):
        add_http_arguments(one)
        add_json_argument(one)


def run(arguments: argparse.Namespace) -> int:
    authorization = authorization_of(arguments.user)
    if arguments.subscriptions_command == "list":
        path = f"{PATH}?{urlencode({'search': arguments.search, 'limit': LIMIT})}"
        found = fetch(arguments.http, path, authorization, has="subscriptions")
    else:
        asked = {"client_id": arguments.client_id, "name": arguments.name}
        found = fetch(arguments.http, f"{PATH}/delete", authorization, "POST", asked, has="deleted")
    if arguments.json:
        print(json.dumps(found))
    elif arguments.subscriptions_command == "delete":
        print(one_line(f"deleted {found['deleted']}"))
    else:
        for one in found["subscriptions"]:
            whose = f" of client id {one['client_id']}" if one["client_id"] else ""
            selector = f", selector {one['selector']}" if one["selector"] else ""
            owner = f", owner {one['owner']}" if one["owner"] else ""
            counts = f"{counted(one['consumers'], 'consumer')}, {counted(one['waiting'], 'message')} waiting"
            print(one_line(f"{one['name']}{whose}  {one['source']}  {counts}{selector}{owner}"))
        more = found["durable"] - len(found["subscriptions"])
        left = f"; {more} are not shown, TEXT narrows the list" if more else ""
        print(counted(found["durable"], "durable subscription") + left, file=sys.stderr)
    return exit_codes.OK
