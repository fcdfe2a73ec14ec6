"""``penstock doctor``."""

from __future__ import annotations

import json
import resource

import pytest

from gateway.__main__ import main
from gateway.cli.doctor import ABSENT, Finding, exit_code_of, open_files, version_of
from gateway.process import exit_codes
from gateway.process.build import build, has_native_functions


def test_it_tells_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    findings = {finding["name"]: finding for finding in told["findings"]}
    assert list(findings) == ["python", "build", "native", "event loop", "crc", "spark", "java", "open files"]
    assert findings["build"]["found"] == build()
    assert findings["native"]["found"] == ("in use" if has_native_functions() else "not in use")
    assert findings["event loop"]["found"] == f"uvloop {version_of('uvloop')}"
    assert told["wrong"] == sum(finding["is_wrong"] for finding in told["findings"])
    assert code == (exit_codes.FAILED if told["wrong"] else exit_codes.OK)


def test_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["ok", "build", build()] for line in lines)


def test_too_few_open_files_are_wrong() -> None:
    assert open_files(300, 10_000).found == "300, too few to start"
    few = open_files(1024, 10_000)
    assert (few.found, few.is_wrong) == ("1024, enough for 640 connections", True)
    assert "10384" in few.advice
    assert open_files(10_384, 10_000) == Finding("open files", "10384, enough for 10000 connections")
    assert open_files(resource.RLIM_INFINITY, 10_000) == Finding("open files", "no limit")


def test_something_wrong_is_an_exit_code() -> None:
    assert exit_code_of([Finding("a", "1"), Finding("b", "2", True)]) == exit_codes.FAILED
    assert exit_code_of([Finding("a", "1"), Finding("b", "2", False, "could be better")]) == exit_codes.OK


def test_a_package_that_is_not_there() -> None:
    assert version_of("no-package-has-this-name") == ABSENT
