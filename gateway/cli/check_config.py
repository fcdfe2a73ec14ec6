"""``penstock check-config FILE``: every error of a configuration, or what is effective and where it came from."""

from __future__ import annotations

import argparse
import json
import operator
from typing import TYPE_CHECKING, Any

from config.loader import load_config
from config.matching import BOTH, QUEUE, TOPIC, AddressEntry
from config.model import ServerConfig
from config.schema import ADDRESS, SERVER, leaves
from gateway.cli import exit_codes
from gateway.security import refuse_open_listeners

if TYPE_CHECKING:
    from gateway.cli.parsers import Subparsers

_KIND_NAMES = {QUEUE: "queue", TOPIC: "topic", BOTH: "both"}
_BUILT_IN = "default"


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "check-config",
        help="check a configuration file",
        description="Print the effective settings and where each came from, or every error; then exit with 2.",
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.file)
    refuse_open_listeners(config)
    settings = effective(config)
    addresses = [_address(entry) for entry in config.addresses]
    users = {
        name: {
            "mechanisms": [text.partition("$")[0] for text in verifiers],
            "source": config.sources.get(f"users.{name}", _BUILT_IN),
        }
        for name, verifiers in config.users.items()
    }
    if arguments.json:
        print(json.dumps({"ok": True, "settings": settings, "users": users, "addresses": addresses}))
        return exit_codes.OK
    print("ok")
    rows = [(f"{key}: {setting['value']}", setting["source"]) for key, setting in settings.items()]
    rows.extend((f"users.{name}: {', '.join(user['mechanisms'])}", str(user["source"])) for name, user in users.items())
    for at, address in enumerate(addresses):
        rows.append((f"addresses[{at}].match: {address['match']} ({address['kind']})", ""))
        rows.extend(
            (f"addresses[{at}].{key}: {setting['value']}", setting["source"])
            for key, setting in address["settings"].items()
        )
    width = max(len(text) for text, _ in rows)
    for text, source in rows:
        print(f"{text:<{width}}  {source}".rstrip())
    return exit_codes.OK


def effective(config: ServerConfig) -> dict[str, dict[str, str]]:
    """Return each single setting as the file would write it, with its source."""
    return {
        key: {
            "value": leaf.kind.show(operator.attrgetter(leaf.path)(config)),
            "source": config.sources.get(key, _BUILT_IN),
        }
        for key, leaf in leaves(SERVER).items()
    }


def _address(entry: AddressEntry) -> dict[str, Any]:
    settings = {
        key: {"value": leaf.kind.show(entry.values[leaf.path]), "source": entry.sources.get(leaf.path, "")}
        for key, leaf in leaves(ADDRESS).items()
        if leaf.path in entry.values
    }
    return {"match": entry.pattern.text, "kind": _KIND_NAMES[entry.kinds], "settings": settings}
