"""HornetQ's XML: its names, address settings, permissions, acceptors, queues, factories and users."""

from __future__ import annotations

import pytest

from config.loader import merged
from config.matching import QUEUE, TOPIC
from config.model import NamedDestination
from config.options import Option
from config.permissions import PermissionMap
from config.policies import AddressSettings
from config.scram import Verifier
from config.sources import artemis_options as options
from tests.support.config.documents import hornetq, notes, problems, setting, settings


def test_hornetqs_names_say_queue_or_topic() -> None:
    document = hornetq(
        "<address-settings>"
        "<address-setting match='jms.queue.a'><max-size-bytes>1</max-size-bytes></address-setting>"
        "<address-setting match='jms.topic.#'><max-size-bytes>2</max-size-bytes></address-setting>"
        "<address-setting match='plain'><max-size-bytes>3</max-size-bytes></address-setting>"
        "<address-setting match='#'><max-size-bytes>4</max-size-bytes></address-setting>"
        "</address-settings>"
    )
    found = {
        (kind, name): settings(document, name, kind).full.max_size_bytes
        for kind in (QUEUE, TOPIC)
        for name in ("a", "b", "plain")
    }
    assert found == {
        (QUEUE, "a"): 1,
        (QUEUE, "b"): 4,
        (QUEUE, "plain"): 3,
        (TOPIC, "a"): 2,
        (TOPIC, "b"): 2,
        (TOPIC, "plain"): 3,
    }


def test_the_worked_redelivery_delays() -> None:
    document = hornetq(
        setting(
            "#",
            "<redelivery-delay>5000</redelivery-delay><redelivery-delay-multiplier>2.0</redelivery-delay-multiplier>"
            "<max-redelivery-delay>15000</max-redelivery-delay>",
        )
    )
    policy = settings(document, "a").redelivery
    assert [policy.delay_ms(number) for number in range(1, 5)] == [5000, 10000, 15000, 15000]
    assert policy.delays_rollback


@pytest.mark.parametrize(("attempts", "redeliveries"), [("10", 9), ("1", 0), ("-1", -1), ("0", -1)])
def test_attempts_are_deliveries(attempts: str, redeliveries: int) -> None:
    document = hornetq(setting("#", f"<max-delivery-attempts>{attempts}</max-delivery-attempts>"))
    assert settings(document, "a").redelivery.maximum_redeliveries == redeliveries


def test_what_the_file_leaves_unset_takes_penstocks_defaults() -> None:
    found = settings(hornetq(setting("#", "")), "a")
    assert found == AddressSettings()
    assert found.dead_letter_address == "ActiveMQ.DLQ"  # HornetQ would drop what fails ten times


def test_addresses_of_dead_letters_lose_their_prefix() -> None:
    document = hornetq(
        setting("#", "<dead-letter-address>jms.queue.DLQ</dead-letter-address><expiry-address>Old</expiry-address>")
    )
    found = settings(document, "a")
    assert (found.dead_letter_address, found.expiry_address) == ("DLQ", "Old")


def test_permissions_of_hornetq() -> None:
    document = hornetq(
        "<security-settings><security-setting match='jms.queue.#'><permission type='consume' roles='guest'/>"
        "<permission type='createDurableQueue' roles='guest'/></security-setting></security-settings>"
    )
    permissions = PermissionMap(document.permissions)
    assert permissions.groups_for("browse", QUEUE, "a") == frozenset({"guest"})
    assert permissions.groups_for("create", QUEUE, "a") == frozenset({"guest"})
    assert permissions.groups_for("write", QUEUE, "a") == frozenset()
    assert permissions.groups_for("read", TOPIC, "a") == frozenset()


def test_an_acceptor_of_hornetq() -> None:
    document = hornetq(
        "<acceptors><acceptor name='stomp'><factory-class>x</factory-class><param key='protocol' value='stomp'/>"
        "<param key='host' value='127.0.0.1'/><param key='port' value='61613'/></acceptor>"
        "<acceptor name='netty'><factory-class>x</factory-class><param key='port' value='5445'/></acceptor></acceptors>"
    )
    assert problems(document) == []
    assert str(document.values["listeners.stomp"]) == "tcp://127.0.0.1:61613"
    assert any("its protocol is not spoken here" in note for note in notes(document))


def test_queues_topics_and_factories_of_hornetq() -> None:
    document = hornetq(
        "<connection-factory name='one'><connectors><connector-ref connector-name='n'/></connectors>"
        "<consumer-window-size>0</consumer-window-size><producer-max-rate>10</producer-max-rate></connection-factory>\n"
        "<connection-factory name='two'><consumer-window-size>5</consumer-window-size></connection-factory>\n"
        "<queue name='a'><entry name='/queue/a'/><selector string='x'/></queue>"
        "<topic name='t'><entry name='/t'/></topic>"
    )
    assert problems(document) == []
    assert document.destinations == [NamedDestination(QUEUE, "a"), NamedDestination(TOPIC, "t")]
    flow = settings(document, "a").flow
    assert (flow.consumer_window_size_bytes, flow.producer_max_rate_per_second) == (0, 10)
    assert (
        "hornetq.xml:3: connection-factory: flow.consumer_window_size_bytes is 5 here and 0 at hornetq.xml:2, "
        "which counts" in notes(document)
    )


def test_core_queues_of_hornetq() -> None:
    document = hornetq(
        "<queues><queue name='jms.queue.a'><address>jms.queue.a</address><durable>true</durable></queue></queues>"
    )
    assert problems(document) == []
    assert document.destinations == [NamedDestination(QUEUE, "a")]


def test_users_of_hornetq() -> None:
    document = hornetq(
        "<defaultuser name='guest' password='guest'><role name='guest'/></defaultuser>"
        "<user name='a' password='secret'><role name='x'/><role name='y'/></user>"
    )
    config = merged([document])
    assert list(config.users) == ["a"]
    assert Verifier.parse(config.users["a"][0]).proves("secret")
    assert config.groups["a"] == frozenset({"x", "y"})
    assert any("defaultuser: has no effect" in note for note in notes(document))


@pytest.mark.parametrize(
    "inner",
    [
        "<user name='a' password='ENC(secret)'/>",
        "<user name='a' password='${secret}'/>",
        "<user name='a:b' password='secret'/>",
        "<mask-password>true</mask-password><defaultuser name='a' password='secret'/>",
    ],
)
def test_a_user_that_cannot_be_taken_refuses_the_file(inner: str) -> None:
    (problem,) = problems(hornetq(inner))
    assert "secret" not in problem


def test_temporary_destinations_have_no_settings() -> None:
    document = hornetq(setting("jms.tempqueue.#", "<max-size-bytes>1</max-size-bytes>"))
    assert document.addresses == []
    assert any("temporary destinations have no settings" in note for note in notes(document))


@pytest.mark.parametrize("option", options.CONNECTION_FACTORY.values(), ids=lambda option: option.name)
def test_every_element_of_a_connection_factory_is_taken_or_noted(option: Option) -> None:
    document = hornetq(
        f"<connection-factory name='f'><{option.name}>{option.example}</{option.name}></connection-factory>"
    )
    assert problems(document) == []
    if option.status == "honoured":
        assert document.addresses[0].values == option.values(option.example)
    else:
        assert notes(document) == [f"hornetq.xml:2: connection-factory: {option.name} has no effect: {option.text}"]
