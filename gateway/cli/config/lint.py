"""``penstock lint FILES...``: traps of configuration files, with their lines; needs no gateway."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from config.errors import ConfigError, Problem
from config.reports.findings import Finding
from config.reports.lint import lint
from gateway.cli.shared.parsers import Subparsers, add_json_argument
from gateway.process import exit_codes


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "lint",
        help="list the traps of configuration files",
        description="List errors in configuration files of any format, settings without effect, and settings with "
        "another effect than their author may expect, here or in the broker that they come from.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("--strict", action="store_true", help="fail on warnings, too")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    findings = lint([(path, _content(path)) for path in arguments.files])
    if arguments.json:
        print(json.dumps({"findings": [{"level": each.level, **asdict(each.problem)} for each in findings]}))
    else:
        for finding in findings:
            print(finding)
        print(_summary(findings))
    failing = ("error", "warning") if arguments.strict else ("error",)
    return exit_codes.USAGE if any(finding.level in failing for finding in findings) else exit_codes.OK


def _content(path: str) -> bytes:
    """Raises: ConfigError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError([Problem(path, 0, "", f"cannot be read: {error.strerror}")]) from error


def _summary(findings: list[Finding]) -> str:
    counts = {level: sum(finding.level == level for finding in findings) for level in ("error", "warning", "info")}
    return f"errors: {counts['error']}, warnings: {counts['warning']}, information: {counts['info']}"
