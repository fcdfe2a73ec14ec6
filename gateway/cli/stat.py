"""``penstock stat``: destinations, how much waits and moves, as a table."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from time import sleep
from typing import TYPE_CHECKING, Any, Final

from gateway.cli import exit_codes
from gateway.cli.parsers import PasswordNeeded, add_user_argument, password_of

if TYPE_CHECKING:
    from gateway.cli.parsers import Subparsers

DEFAULT_URL: Final = "http://127.0.0.1:8161"
WATCH_INTERVAL_S: Final = 1.0
ANSWER_TIME_S: Final = 10.0

_CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"

# Title and key; a key with a dot is one of the rates, in messages per second.
_COLUMNS: Final = (
    ("DEPTH", "depth"),
    ("IN-FLIGHT", "in_flight"),
    ("DELAYED", "delayed"),
    ("CONSUMERS", "consumers"),
    ("IN/s", "rates.enqueued"),
    ("OUT/s", "rates.delivered"),
    ("ACK/s", "rates.acknowledged"),
    ("ENQUEUED", "enqueued"),
    ("ACKNOWLEDGED", "acknowledged"),
    ("REDELIVERED", "redelivered"),
    ("DEAD", "dead_lettered"),
    ("EXPIRED", "expired"),
)


class StatError(Exception):
    """No answer, or none of the gateway's."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "stat",
        help="show destinations, depth, in-flight and rates",
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--http", metavar="URL", default=DEFAULT_URL, help="HTTP listener (default: %(default)s)")
    parser.add_argument("--watch", action="store_true", help="show it again every second until interrupted")
    add_user_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document, one per line with --watch")


def run(arguments: argparse.Namespace) -> int:
    try:
        authorization = _authorization(arguments.user)
        while True:
            document = fetch(arguments.http, authorization)
            if arguments.json:
                print(json.dumps(document), flush=True)
            else:
                is_screen = arguments.watch and sys.stdout.isatty()
                print((_CLEAR_SCREEN if is_screen else "") + table(document), flush=True)
            if not arguments.watch:
                return exit_codes.OK
            sleep(WATCH_INTERVAL_S)
    except PasswordNeeded as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.USAGE
    except StatError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return exit_codes.UNREACHABLE


def fetch(url: str, authorization: str | None) -> dict[str, Any]:
    """Return what ``/api/stat`` says.  Raises: StatError."""
    import http.client
    import urllib.error
    import urllib.request

    base = url.replace("tcp://", "http://", 1).rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise StatError(f"--http is {url!r}, allowed is http://HOST:PORT")
    # Without the proxies of the environment: a gateway is asked directly.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        request = urllib.request.Request(f"{base}/api/stat")
        if authorization is not None:
            request.add_header("Authorization", authorization)
        with opener.open(request, timeout=ANSWER_TIME_S) as response:
            document = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(1024).decode("utf-8", "replace").strip()
        raise StatError(f"{base} answers {error.code}: {text}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise StatError(f"cannot reach {base}: {reason}") from None
    except ValueError:
        raise StatError(f"{base} does not answer as a Penstock gateway") from None
    if not isinstance(document, dict) or "destinations" not in document:
        raise StatError(f"{base} does not answer as a Penstock gateway")
    return document


def table(document: dict[str, Any]) -> str:
    """Return the document for the eye."""
    rows = [["DESTINATION", *(title for title, _ in _COLUMNS)]]
    for destination in sorted(document["destinations"], key=lambda each: (each["kind"], each["name"])):
        rows.append(
            [f"{destination['kind']}://{destination['name']}", *(_cell(destination, key) for _, key in _COLUMNS)]
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        " ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    mebibyte = 1024 * 1024
    lines.append("")
    lines.append(
        f"connections {document['connections']}, consumers {len(document['consumers'])}, "
        f"memory {document['memory_bytes'] / mebibyte:.1f} of {document['memory_limit_bytes'] / mebibyte:.0f} MiB"
    )
    store = document["store"]
    if not store["is_accepting"]:
        lines.append(f"STORE NOT ACCEPTING: {store['reason']}")
    elif store["reason"]:
        lines.append(f"STORE: {store['reason']}")
    lines.extend(
        f"blocked: connection {blocked['connection_id']}: {blocked['reason']}"
        for blocked in document["blocked_producers"]
    )
    return "\n".join(lines)


def _cell(destination: dict[str, Any], key: str) -> str:
    if not key.startswith("rates."):
        return str(destination[key])
    rates = destination["rates"]
    return "-" if rates is None else f"{rates[key.removeprefix('rates.')]:.0f}"


def _authorization(user: str | None) -> str | None:
    """Raises: PasswordNeeded."""
    passcode = password_of(user)
    if passcode is None:
        return None
    return "Basic " + base64.b64encode(f"{user}:{passcode}".encode()).decode("ascii")
