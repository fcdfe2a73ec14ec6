"""``penstock completion SHELL``: a script by which a shell completes commands, options and their values.

It is made from the parsers of all commands, so it names exactly what this version accepts.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from gateway.cli.shared.parsers import Subparsers
from gateway.process import exit_codes

SHELLS: Final = ("bash", "zsh", "fish")
HELP: Final = """\
Print a script by which a shell completes commands and options.  To install it:

  bash   penstock completion bash > ~/.local/share/bash-completion/completions/penstock
  zsh    penstock completion zsh > DIR/_penstock, where DIR is in $fpath
  fish   penstock completion fish > ~/.config/fish/completions/penstock.fish

Write it again after an update."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print a completion script for a shell",
        description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)


def run(arguments: argparse.Namespace) -> int:
    import shtab

    from gateway.cli.dispatch import MODULES, parser_of

    parser = parser_of(MODULES)
    _mark_paths(parser, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    print(shtab.complete(parser, arguments.shell))
    return exit_codes.OK


def _mark_paths(parser: argparse.ArgumentParser, kinds: Mapping[str, object]) -> None:
    """Let a shell complete paths where the help says FILE or DIR."""
    for action in parser._actions:  # argparse has no public name for them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_paths(command, kinds)
        elif action.metavar in kinds:
            vars(action)["complete"] = kinds[str(action.metavar)]
