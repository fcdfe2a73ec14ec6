"""Commands and configurations that pages show are taken by this version."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from config.schema import SERVER
from config.sources.yaml import read
from gateway.cli.dispatch import MODULES, parser_of

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    ROOT / "README.md",
    *sorted(page for kind in ("tutorial", "how-to", "reference") for page in (ROOT / "docs" / kind).glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
KEYS = {*SERVER, "users", "permissions", "virtual-topics", "destinations", "addresses"}
PROGRAMS = ("penstock", "scripts/run", "/opt/penstock/bin/penstock")
# What ends a command: the next one, a pipe or a redirection.
END = re.compile(r"\s(?:\||&&|;|&$|[12]?>)")
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
LEFT_OUT = re.compile(r"\.\.\.|<\w+>")
# A page explains a line in a column of its own, and leaves out what the reader knows.
NOT_WHOLE = re.compile(r"\s{3,}|\.\.\.|\[")


def _blocks(text: str) -> list[str]:
    """Return the lines of code blocks, fenced or indented; lines that continue are one."""
    found: list[str] = []
    is_fenced = False
    for line in re.sub(r"\\\n\s*", "", text).split("\n"):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            found.append(line.strip().removeprefix("$ ").removeprefix("sudo "))
    return found


def _commands(page: Path) -> list[list[str]]:
    """Return the arguments of each command of penstock that ``page`` shows whole."""
    found = []
    for line in _blocks(page.read_text()):
        text = END.split(line, maxsplit=1)[0]
        if text.split(" ")[0] in PROGRAMS and not NOT_WHOLE.search(text):
            words = shlex.split(text, comments=True)[1:]
            if words and words[0] in MODULES:
                found.append(words)
    return found


def _is_ours(text: str) -> bool:
    """Say whether ``text`` is a configuration of Penstock, and a whole one: no other program's, nothing left out."""
    keys = re.findall(r"^([\w-]+):", text, re.MULTILINE)
    return bool(keys) and LEFT_OUT.search(text) is None and set(keys) <= KEYS


COMMANDS = sorted({tuple(command) for page in PAGES for command in _commands(page)})
CONFIGURATIONS = sorted({text for page in PAGES for text in YAML.findall(page.read_text()) if _is_ours(text)})


def test_pages_show_commands() -> None:
    assert len(COMMANDS) > 40
    assert ("run", "--openwire", "tcp://0.0.0.0:61616", "--config", "activemq.xml") in COMMANDS
    assert len(CONFIGURATIONS) > 5


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_is_taken(command: tuple[str, ...]) -> None:
    assert parser_of([command[0]]).parse_args(command).command == command[0]


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_a_configuration_is_taken(text: str) -> None:
    assert read("page.yaml", text.encode()).problems == []
