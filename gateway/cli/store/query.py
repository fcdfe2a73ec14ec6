"""``penstock store query``: finds messages by id, key or destination."""

from __future__ import annotations

import argparse
import json
import sys
from base64 import b64decode
from typing import Any, Final
from urllib.parse import urlencode

from engine.store.plain_words import counted
from gateway.answers.wording import clock_time
from gateway.cli.shared.http_client import fetch_long
from gateway.cli.shared.parsers import Subparsers
from gateway.process import exit_codes
from gateway.process.log_lines import one_line

DAMAGED_SHOWN: Final = 10
OPTIONS: Final = ("id", "key", "destination", "from", "to", "from-offset", "to-offset", "before", "limit")


def add_parser(subparsers: Subparsers, parents: list[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "query",
        parents=parents,
        help="find messages, newest first",
        description="Find messages by id, by key (correlation-id, or a word of the header 'keys') or by destination.",
    )
    parser.add_argument("--id", metavar="MESSAGE-ID")
    parser.add_argument("--key", metavar="KEY")
    parser.add_argument("--destination", metavar="NAME", help="for example orders.eu or topic://prices")
    parser.add_argument("--from", metavar="TIME", help="store time: 2026-01-31T12:00:00Z, or milliseconds since 1970")
    parser.add_argument("--to", metavar="TIME")
    parser.add_argument("--from-offset", metavar="N", help="queue offset, in each priority's queue")
    parser.add_argument("--to-offset", metavar="N")
    parser.add_argument("--limit", metavar="N", help="messages of one page (default: 32)")
    parser.add_argument("--before", metavar="LOG-OFFSET", help="the next page: the offset at the end of the last one")
    parser.add_argument("--body", action="store_true", help="print bodies, too")


def run(arguments: argparse.Namespace) -> int:
    asked = {name: getattr(arguments, name.replace("-", "_")) for name in OPTIONS}
    asked = {name: text for name, text in asked.items() if text is not None} | (
        {"body": "true"} if arguments.body else {}
    )
    found = _ask(arguments, asked)
    for message in found["messages"]:
        print(json.dumps(message) if arguments.json else _line(message))
    if not arguments.json:
        print(_footer(found), file=sys.stderr)
    elif found["next_before"] or found["damaged"]:
        print(json.dumps({"next_before": found["next_before"], "damaged": found["damaged"]}), file=sys.stderr)
    return exit_codes.STORE if found["damaged"] else exit_codes.OK


def _ask(arguments: argparse.Namespace, asked: dict[str, str]) -> dict[str, Any]:
    if arguments.http is not None:
        return fetch_long(arguments, f"/api/store/query?{urlencode(asked)}")
    from engine.store.read.reader import StoreReader
    from gateway.answers.store_view import answer, question_of

    question = question_of(asked)
    return answer(StoreReader(arguments.data), question)


def _line(message: dict[str, Any]) -> str:
    keys = f"  keys {' '.join(message['keys'])}" if message["keys"] else ""
    line = one_line(
        f"{message['id']}  {clock_time(message['store_time_ms'])}  {message['destination']}  "
        f"priority {message['priority']}  entry {message['queue_offset']}  {message['body_bytes']} octets{keys}"
    )
    body = _body(message)
    return line if body is None else "\n".join([line, *map(one_line, body.split("\n"))])


def _body(message: dict[str, Any]) -> str | None:
    """Return the body as text if possible, because many clients send texts as bytes messages."""
    if "body_base64" not in message:
        return message.get("body")
    encoded = str(message["body_base64"])
    try:
        text = b64decode(encoded).decode()
    except UnicodeDecodeError:
        return encoded
    return text if all(line.isprintable() for line in text.split("\n")) else encoded


def _footer(found: dict[str, Any]) -> str:
    text = f"{counted(len(found['messages']), 'message')}, up to log offset {found['until_offset']}"
    if found["until_ms"]:
        text += f", {clock_time(found['until_ms'])}"
    if found["scanned_bytes"]:
        text += f"; {found['scanned_bytes']} octets of the log are in no index yet and were scanned"
    if found["damaged"]:
        text += f"; the messages at log offsets {', '.join(map(str, found['damaged'][:DAMAGED_SHOWN]))} is damaged"
    if found["next_before"]:
        text += f"; more with --before {found['next_before']}"
    return text
