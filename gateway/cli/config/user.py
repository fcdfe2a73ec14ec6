"""``penstock user``: adds, changes and removes users in a configuration file, or prints the lines to paste."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from config.access_tokens import NEVER, new_token, token_line
from config.names import AccessTokenText, GroupName, UserName
from config.schema import parse_text
from config.scram import DEFAULT_ITERATIONS, hash_password
from gateway.cli.shared.configuration_file import READABLE
from gateway.cli.shared.parsers import CommandError, Subparsers, add_json_argument
from gateway.process import exit_codes

if TYPE_CHECKING:
    from config.sources.user_lines import UserFile

ASKING: Final = (
    "Ask for a password, or read it from the first line of standard input.  "
    "The password is never an argument: arguments are visible to every user of the machine."
)
EDITING: Final = "  Everything else in the file stays as it is.  'penstock reload' makes a running gateway read it."


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("user", help="make users for the configuration")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    hash_parser = actions.add_parser(
        "hash", help="print the verifiers of a user", description=f"{ASKING}  Print YAML to paste."
    )
    add = actions.add_parser("add", help="add a user to a configuration file", description=ASKING + EDITING)
    passwd = actions.add_parser("passwd", help="change a user's password", description=ASKING + EDITING)
    remove = actions.add_parser("remove", help="remove a user", description=f"Remove a user.{EDITING}")
    token = actions.add_parser(
        "token",
        help="make an access token of a user, which programs use as a password",
        description=f"Make an access token and print it: the file has a digest only.{EDITING}",
    )
    revoke = actions.add_parser(
        "revoke", help="remove an access token", description=f"Remove an access token.{EDITING}"
    )
    for one in (hash_parser, add, passwd, remove, token, revoke):
        one.add_argument("name", metavar="NAME")
    for one in (token, revoke):
        one.add_argument("--name", dest="token", metavar="TOKEN", required=True, help="of the token, unique for a user")
    token.add_argument(
        "--expires",
        metavar="DAY",
        default=NEVER,
        help="as in 2027-01-31: it ends as that day begins, UTC (default: never)",
    )
    for one in (add, passwd, remove, token, revoke):
        one.add_argument("--config", metavar="FILE", required=True, help="YAML; 'add' makes a file that does not exist")
    for one in (hash_parser, add, passwd):
        one.add_argument(
            "--iterations",
            type=int,
            default=DEFAULT_ITERATIONS,
            help="work per check, for the gateway and for anybody who tries passwords (default: %(default)s)",
        )
    add.add_argument("--group", metavar="GROUP", action="append", default=[], help="of the user; repeatable")
    add_json_argument(hash_parser)


def run(arguments: argparse.Namespace) -> int:
    try:
        name = str(parse_text(UserName(), arguments.name))
    except ValueError as error:
        raise CommandError(f"NAME is {error}") from None
    if arguments.action == "hash":
        return _print_hash(name, arguments)
    return _edit(name, arguments)


def _print_hash(name: str, arguments: argparse.Namespace) -> int:
    from config.sources.user_lines import user_lines

    verifiers = _verifiers(name, arguments.iterations)
    if arguments.json:
        print(json.dumps({"name": name, "verifiers": verifiers}))
    else:
        print("\n".join(["users:", *user_lines(name, verifiers)]))
    return exit_codes.OK


def _edit(name: str, arguments: argparse.Namespace) -> int:
    from config.sources.user_lines import UserFile

    path = Path(arguments.config)
    action = arguments.action
    groups = [_group(text) for text in getattr(arguments, "group", ())]
    token = new_token() if action == "token" else ""

    def edited(text: str) -> str:
        file = UserFile(str(path), text)
        if action == "add" and name in file.names:
            raise CommandError(f"{path} has a user {name}; 'penstock user passwd' changes the password")
        if action != "add" and name not in file.names:
            raise CommandError(f"{path} has no user {name}; it has {', '.join(file.names) or 'none'}")
        if action in ("token", "revoke"):
            return _with_token(file, name, arguments, token)
        if action == "remove":
            if len(file.names) == 1:
                raise CommandError(f"{name} is the last user of {path}; without users everybody may log in")
            return file.without_user(name)
        verifiers = _verifiers(name, arguments.iterations)
        return file.with_user(name, verifiers, groups) if action == "add" else file.with_verifiers(name, verifiers)

    _rewrite(path, edited, may_make=action == "add")
    if token:
        print(token)
        print(f"added the access token {arguments.token} of {name} in {path}; it is not shown again", file=sys.stderr)
    elif action == "revoke":
        print(f"removed the access token {arguments.token} of {name} in {path}")
    else:
        print(f"{ {'add': 'added', 'passwd': 'changed', 'remove': 'removed'}[action] } {name} in {path}")
    return exit_codes.OK


def _with_token(file: UserFile, name: str, arguments: argparse.Namespace, token: str) -> str:
    """Return the text of a file with an access token, or without one if ``token`` is "".  Raises: CommandError."""
    known = {text.partition("$")[0]: text for text in file.access_tokens_of(name)}
    if not token:
        if arguments.token not in known:
            raise CommandError(f"{name} has no access token {arguments.token}; it has {', '.join(known) or 'none'}")
        del known[arguments.token]
    elif arguments.token in known:
        raise CommandError(f"{name} has an access token {arguments.token}; 'penstock user revoke' removes it")
    else:
        try:
            text = AccessTokenText().parse(token_line(arguments.token, arguments.expires, token))
        except ValueError as error:
            why = f" {error}," if str(error) else ""
            raise CommandError(
                f"--name is {arguments.token!r} and --expires {arguments.expires!r},{why} allowed are 1 to 64 of "
                "A-Z a-z 0-9 _ . - and never or a day as in 2027-01-31"
            ) from None
        known[arguments.token] = text
    return file.with_access_tokens(name, list(known.values()))


def _rewrite(path: Path, edit: Callable[[str], str], may_make: bool) -> None:
    """Replace a file as a whole by what ``edit`` makes of it: readers see the old text or the new one.

    The new file keeps owner, group and mode, without access for others.  Raises: CommandError, OSError.
    """
    path = path.resolve()  # behind a link
    new = path.parent / f"{path.name}.new"
    try:
        # It is also a lock: of two commands at once the second would undo the first.
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandError(f"{new} exists: another 'penstock user' is at work; if none is, remove it") from None
    try:
        with open(descriptor, "wb") as file:
            known = path.stat() if path.exists() or not may_make else None
            text = "" if known is None else path.read_bytes().decode("utf-8-sig")
            file.write(edit(text).encode())
            file.flush()
            if known is not None:
                os.fchown(descriptor, known.st_uid, known.st_gid)
            os.fchmod(descriptor, READABLE if known is None else known.st_mode & READABLE)
            os.fsync(descriptor)
        os.rename(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _group(text: str) -> str:
    try:
        return str(parse_text(GroupName(), text))
    except ValueError as error:
        raise CommandError(f"--group is {error}") from None


def _verifiers(name: str, iterations: int) -> Sequence[str]:
    """Raises: CommandError."""
    if not 4_096 <= iterations <= 9_999_999:
        raise CommandError("--iterations is outside 4096 to 9999999")
    passcode = _ask(name)
    if not passcode:
        raise CommandError("no password, allowed is one on standard input or typed at the prompt")
    return hash_password(passcode, iterations)


def _ask(name: str) -> str:
    """Return the password, empty if there is none.  Raises: CommandError."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    import getpass

    passcode = getpass.getpass(f"Password of {name}: ")
    if getpass.getpass("Once more: ") != passcode:
        raise CommandError("the two passwords differ")
    return passcode
