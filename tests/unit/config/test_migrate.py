"""Migrate: the YAML that is written says what the files said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import ConfigError
from config.loader import merged
from config.matching import QUEUE, TOPIC, AddressMatcher
from config.migrate import migrate, quoted
from config.model import ServerConfig
from config.permissions import PermissionMap
from config.scram import Verifier, hash_password
from config.sources.detect import read
from config.sources.document import Document
from config.sources.yaml import read as read_yaml

ACTIVEMQ = """<broker advisorySupport="false">
  <destinationPolicy><policyMap><policyEntries>
    <policyEntry queue=">" memoryLimit="10 mb" queuePrefetch="5"/>
    <policyEntry queue="a.>" prioritizedMessages="false">
      <deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy>
    </policyEntry>
    <policyEntry topic=">"><pendingMessageLimitStrategy>
      <constantPendingMessageLimitStrategy limit="1000"/></pendingMessageLimitStrategy></policyEntry>
  </policyEntries></policyMap></destinationPolicy>
  <destinations><queue physicalName="a.b"/></destinations>
  <destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
    <virtualTopic name="V.>" prefix="C.*." selectorAware="true"/>
  </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>
  <systemUsage><systemUsage sendFailIfNoSpaceAfterTimeout="3000">
    <memoryUsage><memoryUsage limit="64 mb"/></memoryUsage></systemUsage></systemUsage>
  <persistenceAdapter/>
  <plugins>
    <simpleAuthenticationPlugin><users>
      <authenticationUser username="on" password="secret" groups="admins,users"/>
    </users></simpleAuthenticationPlugin>
    <authorizationPlugin><map><authorizationMap><authorizationEntries>
      <authorizationEntry queue=">" read="admins" write="admins" admin="admins"/>
      <authorizationEntry queue="a.>" read="users" write="*"/>
    </authorizationEntries></authorizationMap></map></authorizationPlugin>
    <redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>
      <redeliveryPolicy queue="a.>" maximumRedeliveries="-1" redeliveryDelay="1500"/>
    </redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>
  </plugins>
  <transportConnectors>
    <transportConnector uri="stomp://127.0.0.1:61613?jms.prefetchPolicy.all=3&amp;maximumConnections=7"/>
  </transportConnectors>
</broker>
"""
ARTEMIS = """<configuration xmlns="urn:activemq"><core>
  <address-settings><address-setting match="#"><redelivery-delay>5000</redelivery-delay>
    <redelivery-delay-multiplier>1.5</redelivery-delay-multiplier><expiry-address>Old things</expiry-address>
  </address-setting></address-settings>
  <security-settings><security-setting match="#"><permission type="send" roles="amq"/>
    <permission type="createDurableQueue" roles="amq"/></security-setting></security-settings>
  <acceptors><acceptor name="s">tcp://127.0.0.1:1?protocols=STOMP;stompConsumerCredits=-1</acceptor></acceptors>
  <addresses><address name="a"><anycast><queue name="a" max-consumers="1"/></anycast></address></addresses>
</core></configuration>
"""
NAMES = ["a", "a.b", "a.b.c", "b", "V.x"]


def few_rounds(password: str) -> Sequence[str]:
    return hash_password(password, 4096)


def there_and_back(*texts: str) -> tuple[str, ServerConfig, ServerConfig]:
    documents: list[Document] = [read(f"{at}.xml", text.encode()) for at, text in enumerate(texts)]
    written = migrate(documents, few_rounds)
    document = read_yaml("p.yaml", written.encode())
    assert document.problems == []
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
