"""``penstock user hash NAME``: the lines for one user to paste into the configuration."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import TYPE_CHECKING

from config.names import UserName
from config.schema import parse_text
from config.scram import DEFAULT_ITERATIONS, hash_password
from gateway.process import exit_codes

if TYPE_CHECKING:
    from gateway.cli.shared.parsers import Subparsers

# Names that YAML reads as text without quotes.  Others are written as JSON strings, which YAML reads, too.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]*")
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("user", help="make users for the configuration")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    hash_parser = actions.add_parser(
        "hash",
        help="print the verifiers of a user",
        description="Ask for a password, or read it from the first line of standard input; print YAML to paste. "
        "The password is never an argument: arguments are visible to every user of the machine.",
    )
    hash_parser.add_argument("name", metavar="NAME")
    hash_parser.add_argument(
        "--iterations",
        type=int,
        default=DEFAULT_ITERATIONS,
        help="work per check, for the gateway and for anybody who tries passwords (default: %(default)s)",
    )
    hash_parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    try:
        name = str(parse_text(UserName(), arguments.name))
    except ValueError as error:
        print(f"penstock: NAME is {error}", file=sys.stderr)
        return exit_codes.USAGE
    if not 4_096 <= arguments.iterations <= 9_999_999:
        print("penstock: --iterations is outside 4096 to 9999999", file=sys.stderr)
        return exit_codes.USAGE
    passcode = _ask(name)
    if not passcode:
        print("penstock: no password, or two different ones", file=sys.stderr)
        return exit_codes.USAGE
    verifiers = hash_password(passcode, arguments.iterations)
    if arguments.json:
        print(json.dumps({"name": name, "verifiers": verifiers}))
        return exit_codes.OK
    is_plain = _PLAIN.fullmatch(name) is not None and name.lower() not in _YAML_WORDS
    print("users:")
    print(f"  {name if is_plain else json.dumps(name)}:")
    print("    verifiers:")
    for verifier in verifiers:
        print(f"      - {verifier}")
    return exit_codes.OK


def _ask(name: str) -> str:
    """Return the password, empty if there is none."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    import getpass

    passcode = getpass.getpass(f"Password of {name}: ")
    return passcode if getpass.getpass("Once more: ") == passcode else ""
