"""Migrate: the YAML that is written says what the files said."""

from __future__ import annotations

from collections.abc import Sequence

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.errors import ConfigError
from config.loader import merged
from config.matching import QUEUE, TOPIC, AddressMatcher
from config.model import ServerConfig
from config.permissions import PermissionMap
from config.reports.json_schema import build
from config.reports.migrate import migrate, quoted
from config.scram import Verifier, hash_password
from config.sources.detect import read
from config.sources.document import Document
from config.sources.yaml import read as read_yaml
from tests.support.config.broker_files import ACTIVEMQ, ARTEMIS

NAMES = ["a", "a.b", "a.b.c", "b", "V.x"]


def few_rounds(password: str) -> Sequence[str]:
    return hash_password(password, 4096)


def there_and_back(*texts: str) -> tuple[str, ServerConfig, ServerConfig]:
    documents: list[Document] = [read(f"{at}.xml", text.encode()) for at, text in enumerate(texts)]
    written = migrate(documents, few_rounds)
    document = read_yaml("p.yaml", written.encode())
    assert document.problems == []
    jsonschema.validate(yaml.safe_load(written), build())
    return written, merged(documents), merged([document])


@pytest.mark.parametrize("texts", [[ACTIVEMQ], [ARTEMIS], [ACTIVEMQ, ARTEMIS], [ARTEMIS, ACTIVEMQ]])
def test_the_yaml_says_what_the_files_said(texts: list[str]) -> None:
    _, before, after = there_and_back(*texts)
    for name in NAMES:
        for kind in (QUEUE, TOPIC):
            expected = AddressMatcher(before.addresses).settings_for(kind, name)
            assert AddressMatcher(after.addresses).settings_for(kind, name) == expected
            for action in ("read", "write", "create", "delete", "browse", "subscribe", "subscribe-durable"):
                groups = PermissionMap(before.permissions).groups_for(action, kind, name)
                assert PermissionMap(after.permissions).groups_for(action, kind, name) == groups
    assert after.listeners == before.listeners
    assert (after.memory_limit_bytes, after.advisory_support) == (before.memory_limit_bytes, before.advisory_support)
    assert after.stomp == before.stomp
    assert (after.virtual_topics, after.destinations) == (before.virtual_topics, before.destinations)
    assert after.groups == before.groups
    assert list(after.users) == list(before.users)


def test_passwords_become_verifiers() -> None:
    written, _, after = there_and_back(ACTIVEMQ)
    assert "secret" not in written
    assert Verifier.parse(after.users["on"][0]).proves("secret")
    assert '"on":' in written  # a word of YAML, so it is quoted


def test_values_name_the_lines_they_come_from() -> None:
    written, _, _ = there_and_back(ACTIVEMQ)
    lines = [" ".join(line.split()) for line in written.splitlines()]
    assert lines[0] == "# From 0.xml, by penstock migrate."
    assert any(line.startswith("# 0.xml:16: broker: persistenceAdapter has no effect") for line in lines)
    assert "queue-prefetch: 5 # 0.xml:3" in lines
    assert "max-size-bytes: 10MiB # 0.xml:3" in lines


def test_virtual_topics_switched_off_stay_off() -> None:
    document = read_yaml("p.yaml", b"virtual-topics: []")
    assert merged([read_yaml("q.yaml", migrate([document], few_rounds).encode())]).virtual_topics == ()


def test_an_empty_file_is_an_empty_file() -> None:
    written = migrate([read_yaml("p.yaml", b"")], few_rounds)
    assert merged([read_yaml("q.yaml", written.encode())]) == ServerConfig()


def test_a_file_that_is_not_taken_is_not_written() -> None:
    with pytest.raises(ConfigError, match=r"0\.xml:1: broker: nothing: unknown option"):
        there_and_back("<broker><nothing/></broker>")


@given(text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=40))
def test_quoted_text_is_read_back(text: str) -> None:
    if not text.isprintable():
        return
    document = read_yaml("p.yaml", f"server-name: {quoted(text)}".encode())
    assert document.values == {"server_name": text}
