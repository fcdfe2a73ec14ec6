"""Common parts of several commands' parsers."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    # What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_URL: Final = "tcp://127.0.0.1:61613"
PASSWORD_VARIABLE: Final = "PENSTOCK_PASSWORD"


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        default=DEFAULT_URL,
        help="the gateway's STOMP listener, with ActiveMQ's options; or failover:(...) (default: %(default)s)",
    )
    add_user_argument(parser)


def add_user_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", metavar="NAME", help=f"log in; the password is ${PASSWORD_VARIABLE} or asked for")


def destination_argument(text: str) -> str:
    """Return the name of a destination, as it was written."""
    from config.names import DestinationName

    try:
        DestinationName().parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}, allowed is {DestinationName().allowed}") from None
    return text


class PasswordNeeded(Exception):
    """A user without a password, and no terminal to ask for it."""


def password_of(user: str | None) -> str | None:
    """Return the password of ``user`` from the environment or the terminal; never from an argument.

    Raises: PasswordNeeded.
    """
    if user is None:
        return None
    passcode = os.environ.get(PASSWORD_VARIABLE)
    if passcode is not None:
        return passcode
    if not sys.stdin.isatty():
        raise PasswordNeeded(f"--user needs a password: set {PASSWORD_VARIABLE}")
    import getpass

    return getpass.getpass(f"Password of {user}: ")
