"""``penstock transactions``: lists prepared distributed transactions, and decides about them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from engine.store.plain_words import counted
from gateway.answers.wording import clock_time
from gateway.cli.shared.http_client import add_http_arguments, authorization_of, fetch
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument
from gateway.process import exit_codes

PATH: Final = "/api/transactions"
LIMIT: Final = 10_000


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "transactions",
        "list prepared XA transactions, or decide about them",
        "List the distributed transactions that are prepared and not decided, or decide about one.",
    )
    commands = parser.add_subparsers(dest="transactions_command", metavar="COMMAND", required=True)
    parsers = [commands.add_parser("list", help="the oldest first", description="List prepared transactions.")]
    for word, text in (
        ("commit", "Commit a prepared transaction whose transaction manager will not."),
        ("rollback", "Roll a prepared transaction back; what it had acknowledged returns to the queues."),
        ("forget", "Forget a commit or rollback of an operator; the transaction manager then does not hear of it."),
    ):
        deciding = commands.add_parser(word, help=f"{word} one", description=text)
        deciding.add_argument("xid", metavar="XID", help="as in 'list'")
        parsers.append(deciding)
    for one in parsers:
        add_http_arguments(one)
        add_json_argument(one)


def run(arguments: argparse.Namespace) -> int:
    authorization = authorization_of(arguments.user)
    word = arguments.transactions_command
    if word == "list":
        found = fetch(arguments.http, f"{PATH}?limit={LIMIT}", authorization, has="transactions")
    else:
        found = fetch(arguments.http, f"{PATH}/{word}", authorization, "POST", {"xid": arguments.xid}, has="outcome")
    if arguments.json:
        print(json.dumps(found))
    elif word != "list":
        print(f"{found['outcome']} {found['xid']}")
    else:
        for one in found["transactions"]:
            user = f"  of {one['user']}" if one["user"] else ""
            print(
                f"{one['xid']}  prepared {clock_time(one['prepared_ms'])}{user}  "
                f"sends {one['messages']}, acknowledged {one['acknowledged']}, {one['size_bytes']} octets"
            )
        for one in found["decided"]:
            user = f"  of {one['user']}" if one["user"] else ""
            print(f"{one['xid']}  {one['outcome']} by an operator {clock_time(one['decided_ms'])}{user}")
        print(counted(found["prepared"], "prepared transaction"), file=sys.stderr)
    return exit_codes.OK
