"""``penstock store``: query a store, check it, rebuild its derived files, copy it."""

from __future__ import annotations

import argparse
import importlib
from typing import Final

from gateway.cli.shared.http_client import DEFAULT_URL
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument, add_user_argument

# Each has ``add_parser(subparsers, parents)`` and ``run(arguments) -> int``.
MODULES: Final = {
    "query": "gateway.cli.store.query",
    "dump": "gateway.cli.store.dump",
    "du": "gateway.cli.store.du",
    "readers": "gateway.cli.store.readers",
    "verify": "gateway.cli.store.verify",
    "rebuild": "gateway.cli.store.rebuild",
    "backup": "gateway.cli.store.backup",
}


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "store",
        "query, dump, verify, measure, rebuild or back up a store",
        "Look into a store or copy it.  A store is read without a lock, also while a gateway writes to it.",
    )
    asking = argparse.ArgumentParser(add_help=False)
    where = asking.add_mutually_exclusive_group()
    where.add_argument("--data", metavar="DIR", default="data", help="directory of the store (default: %(default)s)")
    where.add_argument(
        "--http", metavar="URL", nargs="?", const=DEFAULT_URL, help="ask the running gateway instead (%(const)s)"
    )
    add_json_argument(asking, "print one JSON object per line")
    add_user_argument(asking)
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    for module in MODULES.values():
        importlib.import_module(module).add_parser(commands, [asking])


def run(arguments: argparse.Namespace) -> int:
    code = importlib.import_module(MODULES[arguments.what]).run(arguments)
    assert isinstance(code, int), f"store {arguments.what} returned {type(code)}"
    return code
