"""Files and flags together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from config.errors import ConfigError, Problem
from config.loader import load_config
from config.matching import QUEUE, TOPIC, AddressMatcher
from config.model import Endpoint, NamedDestination, ServerConfig, VirtualTopic
from config.permissions import PermissionMap
from config.scram import hash_password

ROOT = Path(__file__).parents[3]


def written(directory: Path, text: str) -> str:
    path = directory / "penstock.yaml"
    path.write_text(text)
    return str(path)


def test_defaults_without_any_file() -> None:
    config = load_config()
    assert config == ServerConfig()
    assert str(config.listeners.stomp) == "tcp://127.0.0.1:61613"
    assert str(config.listeners.http) == "http://127.0.0.1:8161"


def test_a_flag_stands_above_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "data: from-file\nlisteners:\n  stomp: tcp://127.0.0.1:1\n  http: http://127.0.0.1:2\n")
    config = load_config([path], {"data": ("from-flag", "--data"), "listeners.http": ("tcp://[::1]:0", "--http")})
    assert config.data_directory == "from-flag"
    assert config.listeners.stomp == Endpoint("tcp", "127.0.0.1", 1)
    assert config.listeners.http == Endpoint("http", "::1", 0)
    assert config.sources == {"data": "--data", "listeners.stomp": f"{path}:3", "listeners.http": "--http"}


def test_a_wrong_flag_is_named_beside_the_errors_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "dta: x\n")
    with pytest.raises(ConfigError) as caught:
        load_config([path], {"listeners.stomp": ("here", "--stomp")})
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.problems) == 2
    assert lines[0].startswith(f"{path}:1: dta: unknown key")
    assert lines[1] == (
        "--stomp: 'here', allowed is tcp://, stomp://, tls://, ssl://, stomp+ssl://, amqps:// or amqp+ssl://HOST:PORT "
        "as in tcp://127.0.0.1:61613"
    )


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError) as caught:
        load_config([path])
    assert str(caught.value) == f"{path}: cannot be read: No such file or directory"
    assert (caught.value.condition, caught.value.scope) == ("invalid-configuration", "process")


def test_what_is_read_again_is_a_file(tmp_path: Path) -> None:
    """A pipe has been read: it would now be a file without users and permissions, or never end."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(ConfigError) as caught:
        load_config([str(path)], is_again=True)
    assert str(caught.value) == f"{path}: cannot be read: it is no file that can be read again"
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        load_config([str(path)], is_again=True)
    path.write_text("data: here")
    assert load_config([str(path)], is_again=True).data_directory == "here"


def test_a_contradiction_is_reported_where_it_stands(tmp_path: Path) -> None:
    path = written(tmp_path, "stomp:\n  limits:\n    block-park-bytes: 32MiB\n")
    with pytest.raises(ConfigError, match=r"penstock\.yaml:3: stomp\.limits\.block-park-bytes: block-park-max-bytes"):
        load_config([path])


def test_addresses_reach_the_matcher(tmp_path: Path) -> None:
    path = written(tmp_path, "addresses:\n  - match: a.>\n    nack: requeue\n")
    assert AddressMatcher(load_config([path]).addresses).settings_for(QUEUE, "a.b").nack == "requeue"


def test_the_example_is_valid() -> None:
    config = load_config([str(ROOT / "examples" / "penstock.yaml")])
    assert config.addresses
    assert config.listeners == ServerConfig().listeners


def test_a_configuration_shows_no_verifiers() -> None:
    assert "users" not in repr(ServerConfig())


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("f", 3, "a.b", "wrong"), "f:3: a.b: wrong"),
        (Problem("f", 3, "", "wrong"), "f:3: wrong"),
        (Problem("--flag", 0, "", "wrong"), "--flag: wrong"),
    ],
)
def test_how_a_problem_reads(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_later_files_stand_over_earlier_ones(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    verifier = hash_password("x", 4096)[0]
    first.write_text(
        f"data: one\nserver-name: one\nusers: {{a: {{verifiers: [{verifier}], groups: x}}}}\n"
        "addresses: [{match: a, nack: requeue, log-non-persistent: true}]\n"
        "permissions: [{match: a, read: x}]\nvirtual-topics: []\ndestinations: [q]\n"
    )
    second.write_text(
        f"data: two\nusers: {{a: {{verifiers: [{verifier}], groups: y}}}}\n"
        "addresses: [{match: a, nack: dead-letter}]\npermissions: [{match: a, read: y}]\ndestinations: [q, 'topic://t']\n"
    )
    config = load_config([str(first), str(second)])
    assert (config.data_directory, config.server_name) == ("two", "one")
    assert config.sources["data"] == f"{second}:1"
    settings = AddressMatcher(config.addresses).settings_for(QUEUE, "a")
    assert (settings.nack, settings.log_non_persistent) == ("dead-letter", True)
    assert PermissionMap(config.permissions).groups_for("read", QUEUE, "a") == frozenset({"y"})
    assert config.groups == {"a": frozenset({"y"})}
    assert config.virtual_topics == ()
    assert config.destinations == (NamedDestination(QUEUE, "q"), NamedDestination(TOPIC, "t"))


def test_virtual_topics_are_on_without_a_word() -> None:
    assert load_config().virtual_topics == (VirtualTopic(),)


def test_options_of_a_listener_set_limits_of_the_gateway(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "stomp:\n  heart-beat-grace: 3\nlisteners:\n"
        "  stomp: tcp://127.0.0.1:1?transport.hbGracePeriodMultiplier=1.5&jms.useAsyncSend=true\n",
    )
    config = load_config([path])
    assert config.stomp.heart_beat_grace == 1.5
    assert config.sources["stomp.heart-beat-grace"] == f"{path}:4"
    (note,) = config.notes
    assert str(note).startswith(f"{path}:4: listeners.stomp: jms.useAsyncSend has no effect")


def test_options_of_a_listener_by_flag() -> None:
    config = load_config((), {"listeners.stomp": ("tcp://127.0.0.1:1?maximumConnections=7", "--stomp")})
    assert config.stomp.limits.connections == 7
    assert config.sources["stomp.limits.connections"] == "--stomp"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("dead-letters: {strategy: individual, queue-prefix: Penstock.}", 3),
        ("dead-letters: {strategy: individual, topic-prefix: P}", 3),
        ("dead-letters: {queue-prefix: '', queue-suffix: .DuplicateIds}", 3),
        ("expiry-queues: {strategy: individual, queue-prefix: Pen, queue-suffix: Ids}", 3),
        ("dead-letter-address: Penstock.Schedule", 3),
        ("expiry-address: queue://Penstock.PreparedTransactions", 3),
    ],
)
def test_no_dead_letter_comes_to_a_queue_of_the_gateway(tmp_path: Path, settings: str, line: int) -> None:
    path = written(tmp_path, f"addresses:\n  - match: '>'\n    {settings}\n")
    with pytest.raises(ConfigError, match=rf"penstock\.yaml:{line}: .*Penstock\."):
        load_config([path])


def test_a_prefix_and_a_suffix_of_several_entries_form_a_name_together(tmp_path: Path) -> None:
    entries = "addresses:\n  - match: '>'\n    dead-letters: {queue-prefix: ''}\n"
    path = written(tmp_path, entries + "  - match: a\n    dead-letters: {queue-suffix: .Schedule}\n")
    with pytest.raises(ConfigError, match=r"penstock\.yaml:3: dead-letters\.queue-prefix: .*Penstock\.Schedule"):
        load_config([path])


@pytest.mark.parametrize("prefix", ["Penstock.DLQ.", "Penstock.Schedule", "DLQ.", "''"])
def test_other_prefixes_form_no_name_of_the_gateway(tmp_path: Path, prefix: str) -> None:
    path = written(tmp_path, f"addresses:\n  - match: '>'\n    dead-letters: {{queue-prefix: {prefix}}}\n")
    assert load_config([path]).addresses
