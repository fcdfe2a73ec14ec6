"""``penstock user``: a file of users that is replaced as a whole, and keeps its owner and what else is in it."""

from __future__ import annotations

import io
import stat
import sys
from pathlib import Path

import pytest

from config.loader import load_config
from gateway.__main__ import main
from gateway.logins.login_check import LoginCheck
from gateway.process import exit_codes


class Operator:
    """Types commands about one file."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self._monkeypatch = monkeypatch

    def types(self, *words: str, password: str = "") -> int:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(f"{password}\n"))
        more = [] if words[0] in ("remove", "token", "revoke") else ["--iterations", "4096"]
        return main(["user", *words, "--config", str(self.path), *more])

    def lets_in(self, name: str, password: str) -> bool:
        return LoginCheck(load_config([str(self.path)])).check(name, password)

    def mode(self) -> int:
        return stat.S_IMODE(self.path.stat().st_mode)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operator:
    return Operator(tmp_path / "users.yaml", monkeypatch)


def test_a_user_from_its_first_day_to_its_last(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    assert operator.types("add", "ann", "--group", "ops", "--group", "sales", password="one") == exit_codes.OK
    assert operator.mode() == 0o640
    assert load_config([str(operator.path)]).groups["ann"] == {"ops", "sales"}
    assert operator.types("add", "bob", password="two") == exit_codes.OK
    assert (operator.lets_in("ann", "one"), operator.lets_in("bob", "two")) == (True, True)
    assert operator.types("passwd", "ann", password="three") == exit_codes.OK
    assert (operator.lets_in("ann", "one"), operator.lets_in("ann", "three")) == (False, True)
    assert operator.types("remove", "bob") == exit_codes.OK
    assert list(load_config([str(operator.path)]).users) == ["ann"]
    assert capsys.readouterr().out.splitlines()[-1] == f"removed bob in {operator.path}"
    assert [path.name for path in operator.path.parent.iterdir()] == ["users.yaml"]


def test_a_directory_is_no_file_of_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["user", "remove", "bob", "--config", "/"]) == exit_codes.FAILED
    assert capsys.readouterr().err == "penstock: /: Is a directory\n"


def test_the_file_keeps_what_else_is_in_it_and_no_access_for_others(operator: Operator) -> None:
    operator.path.write_text("# ours\ndata: /tmp/x  # here\n")
    operator.path.chmod(0o604)
    link = operator.path.with_name("link.yaml")
    link.symlink_to(operator.path)
    operator.path = link
    assert operator.types("add", "ann", password="one") == exit_codes.OK
    assert link.is_symlink() and operator.mode() == 0o600
    assert link.read_text().startswith("# ours\ndata: /tmp/x  # here\nusers:\n  ann:\n")


@pytest.mark.parametrize(
    ("words", "password", "said"),
    [
        (("add", "ann"), "x", "has a user ann; 'penstock user passwd' changes the password"),
        (("passwd", "zoe"), "x", "has no user zoe; it has ann"),
        (("remove", "zoe"), "", "has no user zoe; it has ann"),
        (("remove", "ann"), "", "ann is the last user of"),
        (("add", "a:b"), "x", "NAME is 'a:b'"),
        (("add", "bob", "--group", "a,b"), "x", "--group is 'a,b'"),
        (("add", "bob"), "", "no password"),
    ],
)
def test_what_is_refused_changes_nothing(
    operator: Operator, words: tuple[str, ...], password: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert operator.types("add", "ann", password="one") == exit_codes.OK
    before = operator.path.read_text()
    assert operator.types(*words, password=password) == exit_codes.USAGE
    assert said in capsys.readouterr().err
    assert operator.path.read_text() == before
    assert [path.name for path in operator.path.parent.iterdir()] == ["users.yaml"]


def test_a_second_command_at_the_same_time_is_refused(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    operator.path.with_name("users.yaml.new").touch()
    assert operator.types("add", "ann", password="one") == exit_codes.USAGE
    assert "users.yaml.new exists: another 'penstock user' is at work" in capsys.readouterr().err
    assert not operator.path.exists()


def test_a_file_that_is_not_there_is_made_by_add_only(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    assert operator.types("passwd", "ann", password="one") == exit_codes.FAILED
    assert "users.yaml: No such file" in capsys.readouterr().err
    assert list(operator.path.parent.iterdir()) == []


def test_access_tokens_are_made_and_removed(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    operator.types("add", "ann", password="one")
    capsys.readouterr()
    assert operator.types("token", "ann", "--name", "ci", "--expires", "2999-12-31") == exit_codes.OK
    out, told = capsys.readouterr()
    token = out.strip()
    assert told == f"added the access token ci of ann in {operator.path}; it is not shown again\n"
    assert operator.lets_in("ann", token) and operator.lets_in("ann", "one")
    assert token not in operator.path.read_text()
    assert operator.types("token", "ann", "--name", "ci") == exit_codes.USAGE
    assert operator.types("token", "ann", "--name", "c i") == exit_codes.USAGE
    assert operator.types("token", "ann", "--name", "x", "--expires", "2027-02-30") == exit_codes.USAGE
    assert operator.types("token", "bob", "--name", "x") == exit_codes.USAGE
    assert operator.types("revoke", "ann", "--name", "x") == exit_codes.USAGE
    assert "has a day that does not exist" in capsys.readouterr().err
    assert operator.types("revoke", "ann", "--name", "ci") == exit_codes.OK
    assert not operator.lets_in("ann", token) and operator.lets_in("ann", "one")
