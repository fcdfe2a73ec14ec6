"""``penstock why``: explains why a consumer or a producer waits, where a message is, and where a reader of the log."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, Final
from urllib.parse import quote

from engine.store.read.found_message import NO_END
from gateway.answers.log_readers import reader_line
from gateway.cli.shared.http_client import DEFAULT_URL, authorization_of, fetch, fetch_long
from gateway.cli.shared.log_readers import readers_at, readers_in
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command, add_json_argument, add_user_argument
from gateway.process import exit_codes

KNOWN_MOST: Final = 20  # readers that an error names


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "why",
        "say why a consumer is idle, a producer waits, a message is where it is",
        "Ask the running gateway why a consumer is idle or a producer waits, or show the history of a message: "
        "sending, failures, rules of redelivery, settlement; or say how far an export or a named stream is.  With "
        "--data messages and readers are looked up in a store without a gateway.",
    )
    parser.add_argument("what", choices=("consumer", "producer", "message", "reader"))
    parser.add_argument(
        "id",
        metavar="ID",
        help="consumer_id or connection_id as in 'stat --json', a message's id in the store, as STOMP's message-id, or "
        "the JMSMessageID that its sender gave it; the name of a stream or the place of an export, as in "
        "'store readers'",
    )
    parser.add_argument(
        "--before",
        metavar="OFFSET",
        type=int,
        default=NO_END,
        help="search for a sender's id below this log offset, where an earlier search ended",
    )
    parser.add_argument("--http", metavar="URL", default=DEFAULT_URL, help="HTTP listener (default: %(default)s)")
    parser.add_argument("--data", metavar="DIR", help="for a message or reader: look into this store instead")
    parser.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="with --data: the configuration that has the policy",
    )
    add_user_argument(parser)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.data is not None and arguments.what not in ("message", "reader"):
        raise CommandError(f"--data knows only messages and readers; ask the gateway for a {arguments.what}")
    if arguments.what == "reader":
        document = _reader(arguments)
    else:
        document = _from_store(arguments) if arguments.data is not None else _from_gateway(arguments)
    print(json.dumps(document) if arguments.json else "\n".join(document["lines"]))
    return exit_codes.OK


def _reader(arguments: argparse.Namespace) -> dict[str, Any]:
    """Raises: CommandError, StoreError."""
    retention = ""
    if arguments.data is not None:
        readers = readers_in(arguments.data)
    else:
        authorization = authorization_of(arguments.user)
        readers = readers_at(arguments.http, authorization)
        retention = fetch(arguments.http, "/api/stat", authorization)["store"]["retention"]
    found = [each for each in readers if each["reader"] == arguments.id]
    if not found:
        known = ", ".join(repr(each["reader"]) for each in readers[:KNOWN_MOST]) or "none"
        raise CommandError(f"no export and no named stream is {arguments.id!r}; there are: {known}")
    lines = [reader_line(each) for each in found]
    if repr(arguments.id) in retention:
        lines.append(f"retention: {retention}")
    return {"lines": lines, "readers": found, "retention": retention}


def _from_gateway(arguments: argparse.Namespace) -> dict[str, Any]:
    """Raises: CommandError."""
    path = f"/api/why/{arguments.what}/{quote(arguments.id, safe='')}"
    if arguments.what == "message" and arguments.before != NO_END:
        path += f"?before={arguments.before}"
    return fetch_long(arguments, path, has="lines")


def _from_store(arguments: argparse.Namespace) -> dict[str, Any]:
    """Raises: StoreError, ConfigError."""
    from config.loader import load_config
    from config.matching import AddressMatcher
    from engine.store.read.reader import StoreReader
    from gateway.answers.message_lives import lives_of
    from gateway.web.management.why import lives_answer

    addresses = AddressMatcher(load_config(arguments.config).addresses)
    found = lives_of(StoreReader(arguments.data), arguments.id, arguments.before)
    answer = lives_answer(found, addresses, int(time.time() * 1000), lambda life: None, lambda life: None)
    return {"lines": answer.lines, **answer.facts}
