"""``penstock explain``: each effective value of a destination or a consumer, its origin, and what it overrode.

The values come from the files of ``--config`` or from a running gateway (``--http``), which also knows the options of
its consumers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any
from urllib.parse import quote

from config.destination_options import parse_destination
from config.loader import load_config
from config.model import Listeners
from config.names import DestinationName
from config.options import OptionError
from config.reports.explain import BUILT_IN, explain
from gateway.cli.shared.http_client import DEFAULT_URL, authorization_of, fetch
from gateway.cli.shared.parsers import CommandError, Subparsers, add_json_argument, add_user_argument
from gateway.process import exit_codes
from gateway.process.log_lines import one_line


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="say where each setting of a destination comes from",
        description="Print each effective value of a destination, its file and line, and what it overrode.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "destination",
        metavar="DESTINATION",
        nargs="?",
        help="as in orders.eu, topic://prices, 'orders?consumer.prefetchSize=10'",
    )
    what.add_argument("--consumer", metavar="ID", type=int, help="of a running gateway, as in 'stat --json'")
    parser.add_argument(
        "--connection", metavar="ID", type=int, help="as for this connection of a running gateway, with DESTINATION"
    )
    parser.add_argument(
        "--http", metavar="URL", help=f"ask the gateway there (with --consumer and --connection default: {DEFAULT_URL})"
    )
    add_user_argument(parser)
    parser.add_argument("--config", metavar="FILE", action="append", default=[], help="as of 'penstock run'")
    parser.add_argument(
        "--listener",
        choices=[field.name for field in dataclasses.fields(Listeners) if field.name != "http"],
        help="as for a connection to that listener",
    )
    parser.add_argument("--set", action="store_true", help="only values that something sets")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    try:
        if arguments.consumer is not None:
            return _show(arguments, _ask(arguments, f"consumer/{arguments.consumer}"))
        parsed = parse_destination(arguments.destination)
        kind, name = DestinationName().parse(parsed.name)
        if arguments.http is not None or arguments.connection is not None:
            asked = f"destination/{quote(arguments.destination, safe='')}"
            if arguments.connection is not None:
                asked = f"{asked}?connection={arguments.connection}"
            return _show(arguments, _ask(arguments, asked))
    except OptionError as error:
        raise CommandError(str(error)) from None
    except ValueError:
        raise CommandError(
            f"DESTINATION is {arguments.destination!r}, allowed is {DestinationName().allowed}"
        ) from None
    config = load_config(arguments.config)
    listener = arguments.listener
    defaults = None
    if listener is not None:
        # Without an address of its own, AMQP uses the listener of STOMP.
        endpoint = getattr(config.listeners, listener) or config.listeners.stomp
        defaults = (listener, endpoint.defaults)
    found = explain(config, kind, name, defaults, parsed)
    for note in (*parsed.consumer.notes, *parsed.producer_notes):
        print(f"penstock: {note}", file=sys.stderr)
    return _show(arguments, found.document(DestinationName().show((kind, name))))


def _ask(arguments: argparse.Namespace, what: str) -> dict[str, Any]:
    """Raises: CommandError."""
    url = arguments.http or DEFAULT_URL
    return fetch(url, f"/api/explain/{what}", authorization_of(arguments.user), has="settings")


def _show(arguments: argparse.Namespace, document: dict[str, Any]) -> int:
    if arguments.set:
        settings = document["settings"].items()
        document["settings"] = {key: each for key, each in settings if each["source"] != BUILT_IN}
    print(json.dumps(document) if arguments.json else "\n".join(_lines(document)))
    return exit_codes.OK


def _lines(document: dict[str, Any]) -> list[str]:
    settings = document["settings"]
    key_width = max(map(len, settings), default=0)
    value_width = max((len(each["value"]) for each in settings.values()), default=0)
    lines = [document["what"]]
    for key, each in settings.items():
        over = ", ".join(f"{lower['value']} ({lower['source']})" for lower in each["overrode"])
        row = f"  {key:<{key_width}}  {each['value']:<{value_width}}  {each['source']}"
        lines.append(f"{row}, over {over}" if over else row)
    lines += [f"  may {action}: {', '.join(groups) or 'nobody'}" for action, groups in document["permissions"].items()]
    lines += [f"  not applied: {words}" for words in document["left_out"]]
    lines += [f"  connection: {words}" for words in document.get("asked", ())]
    return [one_line(line) for line in lines]  # clients have named themselves, and what they asked for
