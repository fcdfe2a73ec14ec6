"""``penstock migrate FILE...``: other brokers' files as a penstock.yaml."""

from __future__ import annotations

import argparse
from pathlib import Path

from config.loader import read_all
from config.reports.migrate import migrate
from config.scram import hash_password
from gateway.cli.shared.configuration_file import write_new
from gateway.cli.shared.parsers import CommandError, Subparsers
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "migrate",
        help="write other brokers' files as a penstock.yaml",
        description="Write the penstock.yaml with the effect of activemq.xml, HornetQ's or Artemis' files, each "
        "value with the line it comes from; settings without effect are at its top.  Passwords become verifiers.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="of several, later ones override earlier ones")
    parser.add_argument("--output", metavar="FILE", help="write to this file, which must not exist")


def run(arguments: argparse.Namespace) -> int:
    text = migrate(read_all(arguments.files), hash_password)
    if arguments.output is None:
        print(text, end="")
        return exit_codes.OK
    try:
        write_new(Path(arguments.output), text)
    except OSError as error:
        raise CommandError(f"{arguments.output}: {error.strerror}", exit_codes.FAILED) from None
    return exit_codes.OK
