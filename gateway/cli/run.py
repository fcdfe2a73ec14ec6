"""``penstock run``: the gateway itself."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from config.loader import load_config
from engine.store.disk.files import is_full
from engine.values.errors import StoreCorrupt, StoreError
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command, add_json_argument
from gateway.process import exit_codes
from gateway.process.disk_space import StoreDisk

if TYPE_CHECKING:
    from engine.ports.clock import Clock
    from engine.store.disk.files import Files

# Flag -> key of the configuration that it overrides.
_FLAGS = {
    "data": "data",
    "stomp": "listeners.stomp",
    "amqp": "listeners.amqp",
    "openwire": "listeners.openwire",
    "http": "listeners.http",
}


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "run",
        "start the gateway",
        "Start the gateway and serve until SIGTERM or SIGINT, then stop in order and exit.",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="settings: YAML, activemq.xml, HornetQ's or Artemis' XML; repeatable, later files override earlier ones",
    )
    parser.add_argument("--data", metavar="DIR", help="directory of the store (default: data)")
    parser.add_argument("--stomp", metavar="URI", help="STOMP listener (default: tcp://127.0.0.1:61613); port 0: any")
    parser.add_argument("--amqp", metavar="URI", help="a further address, as tcp://127.0.0.1:5672")
    parser.add_argument("--openwire", metavar="URI", help="a further address, as tcp://127.0.0.1:61616")
    parser.add_argument("--http", metavar="URI", help="HTTP listener (default: http://127.0.0.1:8161); port 0: any")
    parser.add_argument(
        "--skip-corruption",
        action="store_true",
        help="start although the log is damaged in the middle; the damaged part is lost, and the log says where",
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="of the lines on standard error (default: text)"
    )
    add_json_argument(parser, "print one line of JSON once every listener accepts")


def run(arguments: argparse.Namespace, files: Files | None = None, clock: Clock | None = None) -> int:
    """files: the store's file system, clock: the engine's time; None for the machine's."""
    flags = {key: (text, f"--{flag}") for flag, key in _FLAGS.items() if (text := getattr(arguments, flag)) is not None}
    from gateway.app import serve

    try:
        return serve(
            partial(load_config, arguments.config, flags),
            arguments.json,
            arguments.skip_corruption,
            files,
            arguments.log_format,
            clock,
        )
    except StoreCorrupt as error:
        way = "docs/reference/store.md, 'When something is damaged', says how to go on"
        raise CommandError(f"{error}; {way}", exit_codes.STORE) from None
    except StoreError as error:
        raise CommandError(f"{error}{_advice(error.__cause__)}", exit_codes.STORE) from None
    except OSError as error:  # an address in use, a directory that cannot be made
        raise CommandError(str(error), exit_codes.FAILED) from None


def _advice(cause: BaseException | None) -> str:
    """Return what to do about the cause of a start that has failed, "" if nothing is known."""
    if not isinstance(cause, OSError) or not is_full(cause):
        return ""
    if not isinstance(cause.filename, str):
        return "; make room on that disk"
    _, free_bytes = StoreDisk(os.path.dirname(cause.filename)).measure()
    return f"; {free_bytes} octets are free: make room on that disk"
