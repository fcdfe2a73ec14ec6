"""``penstock completion``: the scripts, asked in the shells that this machine has."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.cli.completion import SHELLS
from gateway.cli.dispatch import MODULES
from gateway.process import exit_codes

# Asks for the words that may follow the line in $@, whose last word is being typed.
ASK_BASH = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_penstock; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    shell: str = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    assert main(["completion", shell]) == exit_codes.OK
    path = tmp_path / "script"
    path.write_text(capsys.readouterr().out)
    return path


def _output(command: list[str], folder: Path) -> list[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")[:-1]


def _bash(script: Path, *words: str) -> set[str]:
    return set(_output(["bash", "-c", ASK_BASH, str(script), "penstock", *words], script.parent))


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_knows_every_command_option_and_choice(script: Path) -> None:
    assert _bash(script, "") == set(MODULES)
    assert _bash(script, "re") == {name for name in MODULES if name.startswith("re")}
    assert _bash(script, "store", "d") == {"du", "dump"}
    assert {"--config", "--data", "--stomp", "--log-format"} < _bash(script, "run", "--")
    assert _bash(script, "run", "--json", "--log-format", "") == {"text", "json"}
    assert _bash(script, "completion", "") == set(SHELLS)


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes_files_and_directories(script: Path) -> None:
    (script.parent / "mine.yaml").touch()
    (script.parent / "store").mkdir()
    assert {"mine.yaml", "store"} <= _bash(script, "run", "--config", "")
    assert _bash(script, "check-config", "m") == {"mine.yaml"}
    assert _bash(script, "run", "--data", "") == {"store"}


@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish_knows_every_command_option_and_choice(script: Path) -> None:
    def ask(line: str) -> set[str]:
        command = ["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"', str(script), line]
        return {row.partition("\t")[0] for row in _output(command, script.parent)}

    assert set(MODULES) <= ask("penstock ")
    assert ask("penstock store d") == {"du", "dump"}
    assert {"--config", "--data", "--stomp"} < ask("penstock run --")
    assert ask("penstock run --log-format ") == {"text", "json"}


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_takes_the_script(script: Path) -> None:
    assert _output(["zsh", "-n", str(script)], script.parent) == []
    text = script.read_text()
    assert text.startswith("#compdef penstock")
    assert [name for name in MODULES if f"    {name}:" not in text] == []


def test_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == exit_codes.USAGE
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err
