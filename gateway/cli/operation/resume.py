"""``penstock resume``: lets a paused queue hand its messages over again."""

from __future__ import annotations

from gateway.cli.operation import pause
from gateway.cli.shared.parsers import Subparsers, add_command

run = pause.run


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "resume",
        "let a paused queue hand its messages over again",
        "Let a queue that was paused by 'penstock pause' hand its messages over again.",
    )
    pause.add_arguments(parser)
