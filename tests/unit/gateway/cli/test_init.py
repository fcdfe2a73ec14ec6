"""``penstock init``: a file that says what holds anyway, and that the next commands take."""

from __future__ import annotations

import io
import os
import shlex
import stat
import sys
from pathlib import Path

import pytest

from config.loader import load_config
from config.matching import QUEUE, TOPIC, AddressMatcher
from config.model import ServerConfig
from gateway.__main__ import main
from gateway.cli.config.check_config import effective
from gateway.process import exit_codes


def _written(folder: Path) -> Path:
    path = folder / "penstock.yaml"
    assert main(["init", str(path)]) == exit_codes.OK
    return path


def test_each_value_is_the_default(tmp_path: Path) -> None:
    written, default = load_config([str(_written(tmp_path))]), ServerConfig()
    shown = {key: setting["value"] for key, setting in effective(written).items()}
    assert shown == {key: setting["value"] for key, setting in effective(default).items()}
    for kind in (QUEUE, TOPIC):
        found = [AddressMatcher(config.addresses).settings_for(kind, "orders.eu") for config in (written, default)]
        assert found[0] == found[1]


def test_what_it_says_to_do_next_can_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "with a blank"
    folder.mkdir()
    path = _written(folder)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"wrote {path}; next:"
    commands = [shlex.split(line, comments=True)[1:] for line in said[1:]]
    assert commands[0] == ["check-config", str(path)]
    assert commands[2] == ["run", "--config", str(path)]
    assert main(["lint", "--strict", str(path)]) == exit_codes.OK
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))
    assert main(["user", "add", "ann", "--iterations", "4096", "--config", str(path)]) == exit_codes.OK
    assert list(load_config([str(path)]).users) == ["ann"]
    assert path.read_text().startswith("# The configuration of Penstock.")


def test_the_commented_lines_are_settings(tmp_path: Path) -> None:
    text = _written(tmp_path).read_text()
    block = text[text.index("# permissions:\n") : text.index("\naddresses:")]
    path = tmp_path / "permissions.yaml"
    path.write_text("\n".join(line.removeprefix("# ") for line in block.splitlines()))
    assert [entry.pattern.text for entry in load_config([str(path)]).permissions] == [">"]


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = _written(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_exists_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("data: here\n")
    assert main(["init", str(path)]) == exit_codes.FAILED
    assert capsys.readouterr().err == f"penstock: {path} exists and stays as it is; name another file\n"
    assert path.read_text() == "data: here\n"


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nowhere" / "penstock.yaml"
    assert main(["init", str(path)]) == exit_codes.FAILED
    assert capsys.readouterr().err == f"penstock: {path}: No such file or directory\n"
