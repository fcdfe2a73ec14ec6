"""The command as a whole: help, version, usage errors, and the commands that need no gateway."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from config.loader import load_config
from gateway.__main__ import main
from gateway.cli.dispatch import MODULES
from gateway.logins.login_check import LoginCheck
from gateway.process import exit_codes

ROOT = Path(__file__).parents[4]


def test_the_reference_has_every_command() -> None:
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    table = text.partition("\n## Commands\n")[2].partition("\n## ")[0]
    told = {name.split()[0] for row in table.splitlines() for name in row.partition(" | ")[0].split("`")[1::2]}
    assert set(MODULES) - told == set()


def test_help_lists_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == exit_codes.OK
    text = capsys.readouterr().out
    for name in MODULES:
        assert f"    {name}" in text
    assert "exit codes:" in text


@pytest.mark.parametrize("name", list(MODULES))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == exit_codes.OK
    text = capsys.readouterr().out
    assert f"usage: penstock {name}" in text
    assert max(map(len, text.splitlines())) < 100


@pytest.mark.parametrize("level", ["1", "2"])
def test_it_refuses_to_run_without_assertions(level: str) -> None:
    environment = {**os.environ, "PYTHONOPTIMIZE": level}
    command = [sys.executable, "-m", "gateway", "--version"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (exit_codes.USAGE, "")
    assert f"optimization {level} (-O or PYTHONOPTIMIZE)" in done.stderr


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == exit_codes.OK
    assert capsys.readouterr().out.startswith("penstock ")


@pytest.mark.parametrize("environment", [{}, {"PYTHONUNBUFFERED": "1"}])
@pytest.mark.parametrize("words", [["--version"], ["stat", "--help"], ["completion", "bash"]])
def test_output_that_nobody_reads_and_output_without_room(words: list[str], environment: dict[str, str]) -> None:
    def errors_with(output: int) -> tuple[int, bytes]:
        command = [sys.executable, "-m", "gateway", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | environment, stdout=output, stderr=subprocess.PIPE, check=False
        )
        os.close(output)
        return done.returncode, done.stderr

    reading, writing = os.pipe()
    os.close(reading)
    code, told = errors_with(writing)
    assert told == b"" and code in (exit_codes.OK, exit_codes.FAILED)  # argparse tells of no help that is lost
    code, told = errors_with(os.open("/dev/full", os.O_WRONLY))
    assert b"Traceback" not in told and b"Exception ignored" not in told
    assert words[-1] == "--help" or (code == exit_codes.FAILED and b"No space left on device" in told)


def test_help_in_a_terminal_of_one_column(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    assert main(["top", "--help"]) == exit_codes.OK
    assert "usage: penstock top" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "words",
    [
        ["stat", "--http", "http://user:secret@127.0.0.1:1"],
        ["stat", "--http", "ftp://user:secret@127.0.0.1:1"],
        ["send", "q", "x", "--url", "tcp://user:secret@127.0.0.1:1"],
        ["send", "q", "x", "--url", "failover:(tcp://127.0.0.1:1,tcp://user:secret@127.0.0.1:1)"],
    ],
)
def test_a_password_in_a_url_is_not_repeated(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == exit_codes.USAGE
    told = capsys.readouterr().err
    assert "//...@127.0.0.1:1" in told and "allowed is" in told
    assert "secret" not in told


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nothing"],
        ["run", "--port", "5"],
        ["send"],
        ["send", "q", "x", "--count", "0"],
        ["send", "q", "x", "--count", "many"],
        ["send", "q", "x", "--count", "99999999999999999999"],
        ["send", "q", "x", "--header", "no colon"],
        ["send", "q", "x", "--header", ":v"],
        ["send", "q", "x", "--header", "receipt:1"],
        ["send", "q", "x", "--header", "a:b\nc:d"],
        ["send", "q", "x", "--count=--"],
        ["send", "q", "x", "--file", "also"],
        ["send", "q", "--file", "/nonexistent/file"],
        ["send", "q", "x", "--persistent", "--non-persistent"],
        ["send", "q", "x", "--url", "nonsense"],
        ["receive", "q", "--count", "0"],
        ["receive", "q", "--prefetch", "-1"],
        ["receive", "q", "--timeout", "-1"],
        ["receive", "q", "--timeout", "nan"],
        ["receive", "q", "--timeout", "inf"],
        ["receive", "q", "--ack", "sometimes"],
        ["check-config"],
        ["check-config", "/nonexistent/file"],
        ["user"],
        ["user", "hash", "a:b"],
        ["user", "hash", "a", "--iterations", "1"],
        ["run", "--stomp", "tcp://here"],
        ["stat", "--http=--"],
        ["why", "consumer", "\udcff"],
        ["store", "backup", "copy", "--data", "one", "--http", "http://127.0.0.1:1"],
        ["store", "query", "--http", "http://127.0.0.1:1", "--key", "\udcff"],
        ["run", "--config", "/nonexistent/file"],
    ],
)
def test_usage_errors(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == exit_codes.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err != ""
    assert "Traceback" not in captured.err


def test_check_config_prints_what_is_effective_and_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("store: {segment-bytes: 1 MiB}\naddresses:\n  - {match: a.>, kind: topic, nack: requeue}\n")
    assert main(["check-config", str(path)]) == exit_codes.OK
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["ok"]
    assert ["store.segment-bytes:", "1MiB", f"{path}:1"] in lines
    assert ["store.flush:", "sync", "default"] in lines
    assert ["addresses[0].match:", "a.>", "(topic)"] in lines
    assert ["addresses[0].nack:", "requeue", f"{path}:3"] in lines


def test_check_config_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("data: here\naddresses:\n  - match: b\n    dead-letter-address: null\n")
    assert main(["check-config", str(path), "--json"]) == exit_codes.OK
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert document["settings"]["data"] == {"value": "here", "source": f"{path}:1"}
    assert document["addresses"] == [
        {"match": "b", "kind": "both", "settings": {"dead-letter-address": {"value": "null", "source": f"{path}:4"}}}
    ]


def test_check_config_shows_lists_and_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "permissions: [{match: a, read: [x, y], write: []}]\ndestinations: ['topic://t']\n"
        "listeners: {stomp: 'tcp://127.0.0.1:1?jms.useAsyncSend=true'}\n"
    )
    assert main(["check-config", str(path)]) == exit_codes.OK
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"permissions[0].read: x, y {path}:1" in lines
    assert f"permissions[0].write: nobody {path}:1" in lines
    assert "destinations: topic://t" in lines
    assert "virtual-topics: VirtualTopic.> to Consumer.*." in lines
    assert lines[-1].startswith(f"note: {path}:3: listeners.stomp: jms.useAsyncSend has no effect")


def test_check_config_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", "--json-schema"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["title"] == "penstock.yaml"


def test_check_config_reports_every_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("dta: x\nstore: {flush: never}\n")
    assert main(["check-config", str(path)]) == exit_codes.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{path}:1", f"{path}:2"]


def test_check_config_refuses_an_open_listener(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("listeners:\n  stomp: tcp://0.0.0.0:61613\n")
    assert main(["check-config", str(path)]) == exit_codes.USAGE
    assert capsys.readouterr().err.startswith(f"{path}:2: listeners.stomp: tcp://0.0.0.0:61613 is open to the network")


@pytest.mark.parametrize("name", ["alice", "true", "a b", "#x", "\u00e4", "'q'", "123"])
def test_user_hash_prints_what_can_be_pasted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse\n"))
    assert main(["user", "hash", name, "--iterations", "4096"]) == exit_codes.OK
    path = tmp_path / "p.yaml"
    path.write_text(capsys.readouterr().out)
    config = load_config([str(path)])
    assert list(config.users) == [name]
    login_check = LoginCheck(config)
    assert login_check.check(name, "correct horse")
    assert not login_check.check(name, "correct horse ")


def test_user_hash_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\r\n"))
    assert main(["user", "hash", "bob", "--iterations", "4096", "--json"]) == exit_codes.OK
    document = json.loads(capsys.readouterr().out)
    assert document["name"] == "bob"
    assert len(document["verifiers"]) == 2


def test_user_hash_needs_a_password(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["user", "hash", "bob"]) == exit_codes.USAGE
    assert "no password" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gateway", "check-config", "examples/penstock.yaml"]
    process = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (process.returncode, process.stderr) == (exit_codes.FAILED, b"")


@pytest.mark.parametrize(
    "module",
    ["gateway.process.standard_streams", "argparse", "gateway.cli.dispatch", "gateway.cli.config.check_config"],
)
def test_ctrl_c_while_modules_are_loaded_is_no_traceback(module: str) -> None:
    done = interrupted(module, "raise KeyboardInterrupt", ["check-config", "--json-schema"])
    assert (done.returncode, done.stdout, done.stderr) == (exit_codes.INTERRUPTED, b"", b"")


@pytest.mark.parametrize("module", ["gateway.process.standard_streams", "gateway.cli.dispatch", "gateway.app"])
def test_a_hang_up_while_modules_are_loaded_does_not_end_a_gateway(module: str) -> None:
    done = interrupted(module, "os.kill(os.getpid(), signal.SIGHUP)", ["run", "--config", "/nowhere.yaml"])
    assert (done.returncode, done.stdout) == (exit_codes.USAGE, b"")
    assert b"/nowhere.yaml" in done.stderr


@pytest.mark.parametrize("argv", [["run", "--config", "/nowhere.yaml"], ["check-config", "--json-schema"]])
def test_the_first_process_of_a_container_ends_while_it_starts(argv: list[str]) -> None:
    first = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if shutil.which("unshare") is None or subprocess.run([*first, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process can be the first one here")
    done = interrupted("gateway.cli.dispatch", "os.kill(os.getpid(), signal.SIGTERM)", argv, first)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, b"", b"")


def interrupted(
    module: str, what: str, argv: list[str], before: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process that does ``what`` when it imports ``module``.  before: words of a program around."""
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        f"            {what}\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from gateway.__main__ import main\n"
        f"sys.exit(main({argv!r}))\n"
    )
    command = [*before, sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)


def test_explain_prints_where_values_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("addresses: [{match: a.>, nack: requeue}]\npermissions: [{match: a, read: x}]\n")
    assert main(["explain", "a.b", "--config", str(path), "--set"]) == exit_codes.OK
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["queue://a.b"]
    assert lines[1] == ["nack", "requeue", f"{path}:1,", "over", "redeliver", "(default)"]
    assert lines[2] == ["may", "read:", "nobody"]


def test_explain_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "topic://t?consumer.prefetchSize=3", "--listener", "stomp", "--json"]) == exit_codes.OK
    document = json.loads(capsys.readouterr().out)
    assert document["what"] == "topic://t"
    assert document["settings"]["prefetch.topic-prefetch"]["overrode"] == [{"value": "32766", "source": "default"}]
    assert len(document["settings"]) > 50


def test_explain_asks_a_gateway_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--consumer", "1", "--http", "http://127.0.0.1:1"]) == exit_codes.UNREACHABLE
    assert "cannot reach" in capsys.readouterr().err


def test_explain_as_for_a_connection_of_amqp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("listeners: {stomp: 'tcp://127.0.0.1:0?jms.prefetchPolicy.all=5'}")
    argv = ["explain", "a", "--listener", "amqp", "--config", str(path), "--json"]
    assert main(argv) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["settings"]["prefetch.queue-prefetch"]["value"] == "5"


@pytest.mark.parametrize("destination", ["a.>", "a?consumer.prefetch=1", ""])
def test_explain_needs_a_destination(destination: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", destination]) == exit_codes.USAGE
    assert capsys.readouterr().err.startswith("penstock: ")


def test_lint_lists_and_fails_on_errors_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "b.xml"
    path.write_text(
        "<configuration xmlns='urn:activemq'><core><address-settings><address-setting match='#'>"
        "<address-full-policy>BLOCK</address-full-policy></address-setting></address-settings></core></configuration>"
    )
    assert main(["lint", str(path)]) == exit_codes.OK
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"warning: {path}:1: address-full-policy: ") for line in lines)
    assert lines[-1].startswith("errors: 0, warnings: 1, information: ")
    assert main(["lint", "--strict", str(path)]) == exit_codes.USAGE
    capsys.readouterr()
    path.write_text("dta: x")
    assert main(["lint", "--json", str(path)]) == exit_codes.USAGE
    assert json.loads(capsys.readouterr().out)["findings"][0]["level"] == "error"


def test_lint_of_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "/nonexistent"]) == exit_codes.USAGE
    assert "cannot be read" in capsys.readouterr().err


def test_migrate_writes_what_check_config_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, written = tmp_path / "activemq.xml", tmp_path / "p.yaml"
    source.write_text("<broker advisorySupport='false'/>")
    assert main(["migrate", str(source), "--output", str(written)]) == exit_codes.OK
    assert main(["check-config", str(written)]) == exit_codes.OK
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["advisory-support:", "false", f"{written}:3"] in lines


def test_nobody_else_may_read_what_migrate_writes(tmp_path: Path) -> None:
    source, written = tmp_path / "activemq.xml", tmp_path / "p.yaml"
    source.write_text("<broker/>")
    before = os.umask(0)
    try:
        assert main(["migrate", str(source), "--output", str(written)]) == exit_codes.OK
    finally:
        os.umask(before)
    assert stat.S_IMODE(written.stat().st_mode) == 0o640


def test_migrate_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "activemq.xml"
    source.write_text("<broker/>")
    assert main(["migrate", str(source), "--output", str(source)]) == exit_codes.FAILED
    assert capsys.readouterr().err == f"penstock: {source}: File exists\n"
    assert main(["migrate", str(source)]) == exit_codes.OK
    assert "addresses:" in capsys.readouterr().out


def test_migrate_of_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "activemq.xml"
    source.write_text("<broker><nothing/></broker>")
    assert main(["migrate", str(source)]) == exit_codes.USAGE
    assert capsys.readouterr().err.startswith(f"{source}:1: broker: nothing: unknown option")
