"""Common parts of several commands' parsers."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import textwrap
from typing import Final, TypeAlias

from gateway.process import exit_codes

# What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

DEFAULT_URL: Final = "tcp://127.0.0.1:61613"
PASSWORD_VARIABLE: Final = "PENSTOCK_PASSWORD"
HELP_COLUMNS_MIN: Final = 11
LOGIN: Final = re.compile(r"//[^/\s,()]*@")


class CommandError(Exception):
    """Ends a command with a text for the user and an exit code."""

    def __init__(self, text: str, exit_code: int = exit_codes.USAGE) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def add_command(subparsers: Subparsers, name: str, summary: str, description: str | None) -> argparse.ArgumentParser:
    """Add the parser of a command whose help ends with the exit codes."""
    return subparsers.add_parser(
        name,
        help=summary,
        description=None if description is None else textwrap.fill(description, _help_columns()),
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _help_columns() -> int:
    """Return the width of help texts, as argparse has it."""
    return max(shutil.get_terminal_size().columns - 2, HELP_COLUMNS_MIN)


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        default=DEFAULT_URL,
        help="the gateway's STOMP listener, with ActiveMQ's options; or failover:(...) (default: %(default)s)",
    )
    add_user_argument(parser)


def add_user_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", metavar="NAME", help=f"log in; the password is ${PASSWORD_VARIABLE} or asked for")


def add_json_argument(parser: argparse.ArgumentParser, says: str = "print one JSON document") -> None:
    parser.add_argument("--json", action="store_true", help=says)


def add_nice_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nice",
        type=int,
        choices=range(20),
        metavar="N",
        default=10,
        help="lower the priority of a local Spark by 0 to 19: a gateway beside it goes first (default: %(default)s)",
    )


def destination_argument(text: str) -> str:
    """Return the name of a destination, as it was written."""
    from config.names import DestinationName

    try:
        DestinationName().parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}, allowed is {DestinationName().allowed}") from None
    return text


def without_login(url: str) -> str:
    """Return a URL for an error: nobody is to read a password in it."""
    return LOGIN.sub("//...@", url)


def password_of(user: str | None) -> str | None:
    """Return the password of ``user`` from the environment or the terminal; never from an argument.

    Raises: CommandError if there is neither.
    """
    if user is None:
        return None
    passcode = os.environ.get(PASSWORD_VARIABLE)
    if passcode is not None:
        return passcode
    if not sys.stdin.isatty():
        raise CommandError(f"--user needs a password: set {PASSWORD_VARIABLE}")
    import getpass

    return getpass.getpass(f"Password of {user}: ")
