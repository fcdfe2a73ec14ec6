"""``penstock explain DESTINATION``: each effective value, where it came from, and what it overrode."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from config.destination_options import parse_destination
from config.explain import Explanation, explain
from config.loader import load_config
from config.model import Listeners
from config.options import OptionError
from config.values import Destination
from gateway.cli import exit_codes

if TYPE_CHECKING:
    from gateway.cli.parsers import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="say where each setting of a destination comes from",
        description="Print each effective value of a destination, its file and line, and what it overrode.",
    )
    parser.add_argument(
        "destination", metavar="DESTINATION", help="as in orders.eu, topic://prices, 'orders?consumer.prefetchSize=10'"
    )
    parser.add_argument("--config", metavar="FILE", action="append", default=[], help="as of 'penstock run'")
    parser.add_argument(
        "--listener",
        choices=[field.name for field in dataclasses.fields(Listeners) if field.name != "http"],
        help="as for a connection that came in there",
    )
    parser.add_argument("--set", action="store_true", help="only values that something sets")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    try:
        parsed = parse_destination(arguments.destination)
        kind, name = Destination().parse(parsed.name)
    except OptionError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.USAGE
    except ValueError:
        print(
            f"penstock: DESTINATION is {arguments.destination!r}, allowed is {Destination().allowed}", file=sys.stderr
        )
        return exit_codes.USAGE
    config = load_config(arguments.config)
    listener = arguments.listener
    defaults = (listener, getattr(config.listeners, listener).defaults) if listener is not None else None
    found = explain(config, kind, name, defaults, parsed)
    title = Destination().show((kind, name))
    if arguments.json:
        print(json.dumps({"destination": title, **document(found, arguments.set)}))
    else:
        print("\n".join([title, *lines(found, arguments.set)]))
    for note in (*parsed.consumer.notes, *parsed.producer.notes):
        print(f"penstock: {note}", file=sys.stderr)
    return exit_codes.OK


def document(found: Explanation, only_set: bool) -> dict[str, Any]:
    return {
        "settings": {
            each.key: {
                "value": each.value,
                "source": each.source,
                "overrode": [{"value": value, "source": source} for value, source in each.overrode],
            }
            for each in found.values
            if each.is_set or not only_set
        },
        "left_out": list(found.left_out),
        "permissions": {action: list(groups) for action, groups in found.permissions.items()},
    }


def lines(found: Explanation, only_set: bool) -> list[str]:
    shown = [each for each in found.values if each.is_set or not only_set]
    key_width = max((len(each.key) for each in shown), default=0)
    value_width = max((len(each.value) for each in shown), default=0)
    text: list[str] = []
    for each in shown:
        over = ", ".join(f"{value} ({source})" for value, source in each.overrode)
        row = f"  {each.key:<{key_width}}  {each.value:<{value_width}}  {each.source}"
        text.append(f"{row}, over {over}" if over else row)
    text.extend(f"  may {action}: {', '.join(groups) or 'nobody'}" for action, groups in found.permissions.items())
    text.extend(f"  not applied: {words}" for words in found.left_out)
    return text
