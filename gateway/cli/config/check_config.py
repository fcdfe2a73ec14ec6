"""``penstock check-config FILE...``: all errors of a configuration, or the effective settings and their origins."""

from __future__ import annotations

import argparse
import dataclasses
import json
import operator
from typing import Any

from config.address_schema import ADDRESS
from config.exposure import refuse_open_listeners
from config.loader import load_config
from config.matching import BOTH, QUEUE, TOPIC, AddressEntry
from config.model import ServerConfig
from config.names import DestinationName
from config.permissions import Permission
from config.reports import json_schema
from config.schema import SERVER, leaves
from gateway.cli.shared.parsers import Subparsers, add_json_argument
from gateway.connections.tls import server_context
from gateway.process import exit_codes

_KIND_NAMES = {QUEUE: "queue", TOPIC: "topic", BOTH: "both"}
_BUILT_IN = "default"


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "check-config",
        help="check configuration files",
        description="Print the effective settings with their origins, or all errors; with errors exit with 2.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        default=[],
        help="YAML, activemq.xml, HornetQ's or Artemis' XML; of several, later ones override earlier ones",
    )
    what.add_argument("--json-schema", action="store_true", help="print the JSON schema of penstock.yaml, for editors")
    what.add_argument(
        "--options", action="store_true", help="print which options of other brokers are honoured, as Markdown"
    )
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.json_schema:
        print(json.dumps(json_schema.build(), indent=2))
        return exit_codes.OK
    if arguments.options:
        from config.reports import compatibility

        print(compatibility.build(), end="")
        return exit_codes.OK
    config = load_config(arguments.files)
    refuse_open_listeners(config)
    server_context(config)
    found = _found(config)
    if arguments.json:
        print(json.dumps(found))
        return exit_codes.OK
    print("ok")
    rows = _rows(found)
    width = max(len(text) for text, _ in rows)
    for text, source in rows:
        print(f"{text:<{width}}  {source}".rstrip())
    for note in found["notes"]:
        print(f"note: {note}")
    return exit_codes.OK


def _found(config: ServerConfig) -> dict[str, Any]:
    """Return all effective settings, as ``--json`` prints them."""
    return {
        "ok": True,
        "settings": effective(config),
        "users": {
            name: {
                "mechanisms": [text.partition("$")[0] for text in verifiers],
                "groups": sorted(config.groups.get(name, ())),
                "source": config.sources.get(f"users.{name}", _BUILT_IN),
            }
            for name, verifiers in config.users.items()
        },
        "permissions": [_permission(entry) for entry in config.permissions],
        "virtual_topics": [dataclasses.asdict(topic) for topic in config.virtual_topics],
        "destinations": [DestinationName().show((found.kind, found.name)) for found in config.destinations],
        "addresses": [_address(entry) for entry in config.addresses],
        "notes": [str(note) for note in config.notes],
    }


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a line for each setting, and its source."""
    rows = [(f"{key}: {setting['value']}", setting["source"]) for key, setting in found["settings"].items()]
    for name, user in found["users"].items():
        groups = f"; groups {', '.join(user['groups'])}" if user["groups"] else ""
        rows.append((f"users.{name}: {', '.join(user['mechanisms'])}{groups}", user["source"]))
    for at, permission in enumerate(found["permissions"]):
        rows.append((f"permissions[{at}].match: {permission['match']} ({permission['kind']})", ""))
        rows.extend(
            (f"permissions[{at}].{action}: {', '.join(grant['groups']) or 'nobody'}", grant["source"])
            for action, grant in permission["grants"].items()
        )
    rows.extend((f"virtual-topics: {topic['pattern']} to {topic['prefix']}", "") for topic in found["virtual_topics"])
    rows.extend((f"destinations: {name}", "") for name in found["destinations"])
    for at, address in enumerate(found["addresses"]):
        rows.append((f"addresses[{at}].match: {address['match']} ({address['kind']})", ""))
        rows.extend(
            (f"addresses[{at}].{key}: {setting['value']}", setting["source"])
            for key, setting in address["settings"].items()
        )
    return rows


def effective(config: ServerConfig) -> dict[str, dict[str, str]]:
    """Return each single setting as a file would have it, with its source."""
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


def _permission(entry: Permission) -> dict[str, Any]:
    grants = {
        action: {"groups": sorted(groups), "source": entry.sources.get(action, "")}
        for action, groups in entry.grants.items()
    }
    return {"match": entry.pattern.text, "kind": _KIND_NAMES[entry.kinds], "grants": grants}
