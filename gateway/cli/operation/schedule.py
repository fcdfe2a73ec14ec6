"""``penstock schedule``: lists scheduled messages, and cancels them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final
from urllib.parse import urlencode

from engine.store.plain_words import counted
from gateway.answers.wording import clock_time
from gateway.cli.shared.http_client import add_http_arguments, authorization_of, fetch
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command, add_json_argument, destination_argument
from gateway.process import exit_codes
from gateway.process.log_lines import one_line

LIMIT_DEFAULT: Final = 100
LIMIT_MOST: Final = 10_000
CANCEL_PATH: Final = "/api/schedule/cancel"


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "schedule",
        "list scheduled messages, or cancel them",
        "List the messages that wait for their time, or cancel some of them.",
    )
    commands = parser.add_subparsers(dest="schedule_command", metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="what is due first", description="List what is due first.")
    listing.add_argument(
        "--destination",
        metavar="NAME",
        type=destination_argument,
        help="only messages for this destination, as in orders.eu or topic://prices",
    )
    listing.add_argument("--limit", metavar="N", type=_limit, default=LIMIT_DEFAULT, help="(default: %(default)s)")
    listing.add_argument("--data", metavar="DIR", help="read this store directory instead of asking a gateway")
    cancelling = commands.add_parser(
        "cancel", help="cancel scheduled messages", description="Cancel scheduled messages: they never fire (again)."
    )
    cancelling.add_argument("ids", metavar="ID", nargs="*", help="as in 'list', or in scheduledJobId of a message")
    cancelling.add_argument("--destination", metavar="NAME", type=destination_argument, help="all messages for it")
    cancelling.add_argument("--data", metavar="DIR", help="in this store directory, whose gateway is stopped")
    for one in (listing, cancelling):
        add_http_arguments(one)
        add_json_argument(one)


def run(arguments: argparse.Namespace) -> int:
    if arguments.schedule_command == "list":
        return _list(arguments)
    if bool(arguments.ids) == bool(arguments.destination):
        raise CommandError("cancel takes either ids or --destination")
    return _cancel(arguments)


def _list(arguments: argparse.Namespace) -> int:
    if arguments.data is not None:
        found = _from_store(arguments)
    else:
        asked = {"limit": str(arguments.limit)}
        if arguments.destination is not None:
            asked["destination"] = arguments.destination
        path = f"/api/schedule?{urlencode(asked)}"
        found = fetch(arguments.http, path, authorization_of(arguments.user), has="schedules")
    if arguments.json:
        print(json.dumps(found))
        return exit_codes.OK
    for one in found["schedules"]:
        again = f"  repeats, has fired {one['fired']} times" if one["repeats"] else ""
        destination = one["destination"] or "a temporary destination"
        held = f"  held back: {one['held']}" if one["held"] else ""
        line = f"{one['id']}  {clock_time(one['due_ms'])}  {destination}  {one['size_bytes']} octets{again}{held}"
        print(one_line(line))
    more = f", more than --limit {arguments.limit} shows" if found["more"] else ""
    held = f", {found['held']} of them are due and held back" if found["held"] else ""
    print(f"{counted(found['pending'], 'scheduled message')}{held}{more}", file=sys.stderr)
    return exit_codes.OK


def _from_store(arguments: argparse.Namespace) -> dict[str, Any]:
    """Raises: StoreError."""
    from config.names import DestinationName
    from engine.store.read.scheduled_messages import scheduled_in

    kind = DestinationName()
    wanted = "" if arguments.destination is None else kind.show(kind.parse(arguments.destination))
    pending, found = scheduled_in(arguments.data, wanted, arguments.limit + 1)
    return {
        "pending": pending,
        "held": 0,  # by gates, which a store does not have
        "next_due_ms": found[0]["due_ms"] if found and not wanted else 0,
        "schedules": found[: arguments.limit],
        "more": len(found) > arguments.limit,
    }


def _cancel(arguments: argparse.Namespace) -> int:
    if arguments.data is not None:
        return _show_cancelled(_cancelled_in_store(arguments), arguments.json)
    authorization = authorization_of(arguments.user)
    body = {"destination": arguments.destination} if arguments.destination else {"ids": arguments.ids}
    done = fetch(arguments.http, CANCEL_PATH, authorization, "POST", body, has="cancelled")
    while done.get("next"):
        body["after"] = done["next"]
        more = fetch(arguments.http, CANCEL_PATH, authorization, "POST", body)
        done = {**more, "cancelled": done["cancelled"] + more["cancelled"]}
    return _show_cancelled(done, arguments.json)


def _cancelled_in_store(arguments: argparse.Namespace) -> dict[str, Any]:
    """Raises: StoreLocked while a gateway has the store; StoreError."""
    from config.loader import load_config
    from config.names import DestinationName
    from engine.store.disk.files import RealFiles
    from engine.store.offline import cancel_scheduled
    from gateway.cli.shared.audited_change import audited
    from gateway.process.clock import SystemClock
    from gateway.settings.engine_settings import store_settings

    kind = DestinationName()
    wanted = "" if arguments.destination is None else kind.show(kind.parse(arguments.destination))
    settings = store_settings(load_config([]))
    chosen = f"destination={wanted}" if wanted else f"ids={','.join(arguments.ids)}"
    with audited("cancelScheduledMessages", f"{chosen} data={arguments.data}"):
        done = cancel_scheduled(arguments.data, arguments.ids, wanted, RealFiles(), SystemClock(), settings)
    return {"cancelled": done.count, "unknown": done.unknown, "next": ""}


def _show_cancelled(done: dict[str, Any], is_json: bool) -> int:
    if is_json:
        print(json.dumps(done))
    else:
        print(f"cancelled {counted(done['cancelled'], 'message')}")
        for unknown in done["unknown"]:
            print(f"penstock: {unknown} is not scheduled: it has fired, was cancelled, or never was", file=sys.stderr)
    return exit_codes.FAILED if done["unknown"] else exit_codes.OK


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= LIMIT_MOST:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {LIMIT_MOST}")
