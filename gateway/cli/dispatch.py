"""Finds the command and runs it.

Each command is a module with ``add_parser(subparsers)``, which adds one parser, and ``run(arguments) -> int``, which
returns an exit code.  Only the module of the given command is loaded: ``penstock run`` must not wait for the others.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterable
from typing import Any, Final

from config.errors import ConfigError
from engine.values.errors import NoStore, PenstockError, StoreCorrupt, StoreLocked
from gateway.answers.questions import WrongQuestion
from gateway.cli.shared.parsers import CommandError
from gateway.process import exit_codes

# In the order of the help.
MODULES: Final = {
    "run": "gateway.cli.run",
    "init": "gateway.cli.config.init",
    "check-config": "gateway.cli.config.check_config",
    "explain": "gateway.cli.config.explain",
    "lint": "gateway.cli.config.lint",
    "migrate": "gateway.cli.config.migrate",
    "user": "gateway.cli.config.user",
    "tls": "gateway.cli.config.tls",
    "send": "gateway.cli.messages.send",
    "receive": "gateway.cli.messages.receive",
    "stat": "gateway.cli.operation.stat",
    "top": "gateway.cli.operation.top",
    "why": "gateway.cli.operation.why",
    "retry": "gateway.cli.operation.retry",
    "purge": "gateway.cli.operation.purge",
    "delete": "gateway.cli.operation.delete",
    "pause": "gateway.cli.operation.pause",
    "resume": "gateway.cli.operation.resume",
    "schedule": "gateway.cli.operation.schedule",
    "transactions": "gateway.cli.operation.transactions",
    "subscriptions": "gateway.cli.operation.subscriptions",
    "reload": "gateway.cli.operation.reload",
    "store": "gateway.cli.store.command",
    "replay": "gateway.cli.messages.replay",
    "export": "gateway.cli.export",
    "import": "gateway.cli.lake_import",
    "simulate": "gateway.cli.simulate",
    "demo": "gateway.cli.demo",
    "doctor": "gateway.cli.doctor",
    "completion": "gateway.cli.completion",
}


def execute(argv: list[str]) -> int:
    """Run the command in ``argv`` (without the program's name); return its exit code."""
    if sys.flags.optimize:
        # Without assertions a fault of ours could reach the log, and be confirmed.
        print(
            f"penstock: python runs with optimization {sys.flags.optimize} (-O or PYTHONOPTIMIZE), which removes "
            "assertions; allowed is 0",
            file=sys.stderr,
        )
        return exit_codes.USAGE
    lost = next((text for text in _options(argv) if text.startswith("--") and text.endswith("=--")), "")
    if lost:  # argparse takes the value away, and commands would get a list
        print(f"penstock: an option is {lost!r}; allowed is another value than '--'", file=sys.stderr)
        return exit_codes.USAGE
    code = _run(argv)
    return code if _has_written_output() else exit_codes.FAILED


def _run(argv: list[str]) -> int:
    names = [argv[0]] if argv and argv[0] in MODULES else list(MODULES)
    try:
        arguments = parser_of(names).parse_args(argv)
        code = importlib.import_module(MODULES[arguments.command]).run(arguments)
    except SystemExit as stop:  # after --help, --version, or a usage error that argparse has reported
        return stop.code if isinstance(stop.code, int) else exit_codes.USAGE
    except ConfigError as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    except (CommandError, PenstockError, WrongQuestion) as error:
        from gateway.process.log_lines import one_line

        # A gateway that is asked repeats names that its clients have chosen.
        print("\n".join(map(one_line, f"penstock: {error}".split("\n"))), file=sys.stderr)
        return exit_code_of(error)
    except BrokenPipeError:  # the reader of our output has ended (``| head``)
        return exit_codes.FAILED
    except UnicodeEncodeError:
        wrong = [text for text in argv if not _is_unicode(text)]
        if not wrong:
            raise
        print(f"penstock: an argument is {wrong[0]!a}; allowed is UTF-8", file=sys.stderr)
        return exit_codes.USAGE
    except OSError as error:  # an unreadable file, a failing disk
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"penstock: {where}{error.strerror or error}", file=sys.stderr)
        return exit_codes.FAILED
    assert isinstance(code, int), f"{arguments.command} returned {type(code)}"
    return code


def _has_written_output() -> bool:
    """Write what is left of the output; if that fails, say why, and drop it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        print(f"penstock: standard output: {error.strerror or error}", file=sys.stderr)
    else:
        return True
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would complain once more at exit
    return False


def parser_of(names: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser of these commands, keys of MODULES."""
    parser = _parser()
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        importlib.import_module(MODULES[name]).add_parser(subparsers)
    return parser


def _options(argv: list[str]) -> list[str]:
    """Return the arguments before a ``--``, behind which none is an option."""
    return argv[: argv.index("--")] if "--" in argv else argv


def _is_unicode(text: str) -> bool:
    """Say whether an argument is UTF-8: Python reads other octets as surrogates, which name files only."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def exit_code_of(error: Exception) -> int:
    """Return the exit code for an error that the command itself has not handled."""
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, NoStore | StoreCorrupt | StoreLocked):
        return exit_codes.STORE
    return exit_codes.FAILED if isinstance(error, PenstockError) else exit_codes.USAGE


class _Version(argparse.Action):
    """``--version``, found only on demand, because that reads the installation's metadata."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import PackageNotFoundError, version

        from gateway.process.build import build

        try:
            number = version("penstock")
        except PackageNotFoundError:
            number = "(not installed)"
        print(f"penstock {number} ({build()})")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="A JMS-compatible message gateway: STOMP, AMQP 1.0 and OpenWire, one commit log, Parquet by Spark.",
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser
