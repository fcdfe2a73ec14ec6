"""``penstock doctor``: describes this installation, its problems and their cures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from config.model import ServerConfig
from gateway.cli.shared.parsers import Subparsers, add_command, add_json_argument
from gateway.process import exit_codes
from gateway.process.build import COMPILED, build, has_native_functions
from gateway.process.descriptors import RESERVED_DESCRIPTORS, connections_within, shortage
from spark_bridge.spark.jvm import JavaNotFound, find_java_home, java_version, packaged_java

ABSENT: Final = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line.  advice: how to improve it, if possible; is_wrong: this is a problem for the gateway."""

    name: str
    found: str
    is_wrong: bool = False
    advice: str = ""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "doctor",
        "describe this installation and its problems",
        "Describe this installation, its problems and their cures.",
    )
    add_json_argument(parser, "one JSON object instead of lines")


def run(arguments: argparse.Namespace) -> int:
    findings = examine()
    wrong_count = sum(finding.is_wrong for finding in findings)
    if arguments.json:
        print(json.dumps({"wrong": wrong_count, "findings": [asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{'wrong' if finding.is_wrong else 'ok':5}  {finding.name:10}  {finding.found}")
            if finding.advice:
                print(f"{'':19}{finding.advice}")
    return exit_code_of(findings)


def exit_code_of(findings: list[Finding]) -> int:
    return exit_codes.FAILED if any(finding.is_wrong for finding in findings) else exit_codes.OK


def examine() -> list[Finding]:
    """Examine everything; change nothing."""
    return [
        Finding("python", f"{platform.python_implementation()} {platform.python_version()}"),
        _build(),
        _native_functions(),
        _event_loop(),
        _checksums(),
        _spark(),
        _java(),
        open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1], ServerConfig().stomp.limits.connections),
    ]


def _build() -> Finding:
    found = build()
    advice = "" if found == COMPILED else "scripts/build-compiled makes a faster one; docs/how-to/compiled.md"
    return Finding("build", found, advice=advice)


def _native_functions() -> Finding:
    if has_native_functions():
        return Finding("native", "in use")
    advice = "with a C compiler an installation has functions in C for the hot path; docs/how-to/compiled.md"
    return Finding("native", "not in use", advice=advice)


def _event_loop() -> Finding:
    found = version_of("uvloop")
    if found == ABSENT:
        return Finding("event loop", "no uvloop", True, "penstock run needs it: pip install uvloop")
    return Finding("event loop", f"uvloop {found}")


def _checksums() -> Finding:
    found = version_of("crc32c")
    if found == ABSENT:
        return Finding("crc", "no crc32c", True, "the store needs it: pip install crc32c")
    import crc32c

    if crc32c.hardware_based:
        return Finding("crc", f"crc32c {found}, in hardware")
    return Finding(
        "crc",
        f"crc32c {found}, in software",
        True,
        "each record costs more: this processor has no CRC-32C, or CRC32C_SW_MODE is set",
    )


def _spark() -> Finding:
    found = version_of("pyspark")
    if found == ABSENT:
        return Finding("spark", "not installed", advice="penstock export needs it: pip install 'penstock[spark]'")
    return Finding("spark", f"pyspark {found}")


def _java() -> Finding:
    try:
        home = find_java_home(os.environ, packaged_java())
    except JavaNotFound as error:
        # Only the export needs it, and only if Spark is installed.
        return Finding("java", "none that Spark can use", version_of("pyspark") != ABSENT, str(error))
    java = "java" if home is None else str(home / "bin" / "java")
    return Finding("java", f"Java {java_version(Path(java))}, {java}")


def open_files(limit: int, wanted_connections: int) -> Finding:
    """Compare the number of files that this process may open with the default number of connections."""
    if limit == resource.RLIM_INFINITY:
        return Finding("open files", "no limit")
    allowed = connections_within(wanted_connections, limit)
    is_short = bool(shortage(wanted_connections, limit))
    found = f"{limit}, too few to start" if is_short else f"{limit}, enough for {allowed} connections"
    if allowed < wanted_connections:
        advice = f"raise the limit to {wanted_connections + RESERVED_DESCRIPTORS}: ulimit -n, LimitNOFILE= of a service"
        return Finding("open files", found, True, advice)
    return Finding("open files", found)


def version_of(package: str) -> str:
    """Return the version of an installed package, ABSENT without it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ABSENT
