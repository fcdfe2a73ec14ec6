"""Artemis' XML, and what it shares with HornetQ's: address settings, permissions, acceptors, queues, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from config.loader import merged
from config.matching import QUEUE, TOPIC, AddressMatcher, InvalidPattern
from config.model import Endpoint, NamedDestination
from config.options import Option
from config.permissions import Action, PermissionMap
from config.sources import artemis_options as options
from config.sources.artemis_address_options import ADDRESS_SETTING, HORNETQ_ADDRESS_SETTING
from config.sources.artemis_options import translate
from config.sources.document import Document
from tests.support.config.documents import artemis, hornetq, notes, problems, setting, settings


def test_artemis_names_mean_both() -> None:
    document = artemis(setting("a.#", "<max-size-messages>7</max-size-messages>"))
    assert settings(document, "a.b", QUEUE).full.max_size_messages == 7
    assert settings(document, "a", TOPIC).full.max_size_messages == 7


def test_settings_merge_field_by_field() -> None:
    document = artemis(
        "<address-settings>"
        "<address-setting match='#'><redelivery-delay>5000</redelivery-delay><expiry-delay>9</expiry-delay>"
        "</address-setting>"
        "<address-setting match='a.#'><redelivery-delay-multiplier>2</redelivery-delay-multiplier></address-setting>"
        "<address-setting match='a.b'><max-delivery-attempts>3</max-delivery-attempts></address-setting>"
        "</address-settings>"
    )
    found = settings(document, "a.b")
    assert [found.redelivery.delay_ms(number) for number in range(1, 6)] == [5000, 10000, 20000, 40000, 50000]
    assert found.redelivery.maximum_redeliveries == 2
    assert found.expiry.expiry_delay_ms == 9  # HornetQ itself never inherits it


def test_last_values_have_each_brokers_key() -> None:
    text = setting("#", "<last-value-queue>true</last-value-queue>")
    assert settings(hornetq(text), "a").queue.last_value_key == "_HQ_LVQ_NAME"
    assert settings(artemis(text), "a").queue.last_value_key == "_AMQ_LVQ_NAME"


def test_dead_letter_resources() -> None:
    document = artemis(setting("#", "<auto-create-dead-letter-resources>true</auto-create-dead-letter-resources>"))
    assert settings(document, "a").dead_letter_destination(False, "a", None) == (False, "DLQ.a")
    document = artemis(
        setting(
            "#",
            "<dead-letter-queue-prefix>X.</dead-letter-queue-prefix>"
            "<auto-create-dead-letter-resources>true</auto-create-dead-letter-resources>"
            "<auto-create-expiry-resources>true</auto-create-expiry-resources>",
        )
    )
    found = settings(document, "a")
    assert found.dead_letter_destination(True, "a", None) == (False, "X.a")
    assert found.expiry_destination(False, "a", None) == (False, "EXP.a")


def test_dead_letter_resources_keep_an_inherited_prefix() -> None:
    document = artemis(
        "<address-settings>"
        "<address-setting match='#'><dead-letter-queue-prefix>X.</dead-letter-queue-prefix></address-setting>"
        "<address-setting match='a.#'><auto-create-dead-letter-resources>true</auto-create-dead-letter-resources>"
        "</address-setting></address-settings>"
    )
    assert settings(document, "a.b").dead_letter_destination(False, "a.b", None) == (False, "X.a.b")
    assert settings(document, "a.b", TOPIC).dead_letter_destination(True, "a.b", None) == (False, "X.a.b")
    assert settings(document, "b").dead_letters.strategy == "shared"


@pytest.mark.parametrize(
    ("elements", "queues", "topics"),
    [
        ("queues=false addresses=true", False, True),
        ("addresses=true queues=false", False, True),
        ("queues=true addresses=false", False, False),
        ("addresses=false queues=true", False, False),
        ("jms-queues=false jms-topics=true", False, True),
        ("jms-topics=false jms-queues=true", True, False),
        ("jms-queues=false queues=true", False, True),
        ("addresses=true jms-topics=false", True, False),
        ("queues=true addresses=true", True, True),
    ],
)
def test_what_may_be_made_at_its_first_mention(elements: str, queues: bool, topics: bool) -> None:
    pairs = [one.split("=") for one in elements.split()]
    inner = "".join(f"<auto-create-{name}>{value}</auto-create-{name}>" for name, value in pairs)
    document = artemis(setting("a.#", inner))
    assert settings(document, "a.b", QUEUE).queue.auto_create is queues
    assert settings(document, "a.b", TOPIC).queue.auto_create is topics
    assert settings(document, "b").queue.auto_create


def test_addresses_that_may_be_made_leave_a_false_of_queues_in_force() -> None:
    document = artemis(
        "<address-settings>"
        "<address-setting match='#'><auto-create-queues>false</auto-create-queues></address-setting>"
        "<address-setting match='a.#'><auto-create-addresses>true</auto-create-addresses></address-setting>"
        "<address-setting match='b'><auto-create-queues>true</auto-create-queues></address-setting>"
        "</address-settings>"
    )
    assert [settings(document, name).queue.auto_create for name in ("a.b", "b", "c")] == [False, True, False]
    assert settings(document, "a.b", TOPIC).queue.auto_create


@pytest.mark.parametrize(
    ("broad", "narrow", "queues", "topics"),
    [
        ("addresses=false", "queues=true", False, False),
        ("addresses=false", "addresses=true", True, True),
        ("queues=false addresses=false", "addresses=true", False, True),
        ("queues=false addresses=false", "queues=true addresses=true", True, True),
        ("queues=false", "jms-topics=false", False, False),
    ],
)
def test_queues_and_addresses_are_inherited_apart(broad: str, narrow: str, queues: bool, topics: bool) -> None:
    inner = [
        "".join(f"<auto-create-{one.replace('=', '>')}</auto-create-{one.split('=')[0]}>" for one in text.split())
        for text in (broad, narrow)
    ]
    document = artemis(
        f"<address-settings><address-setting match='a.#'>{inner[1]}</address-setting>"
        f"<address-setting match='#'>{inner[0]}</address-setting></address-settings>"
    )
    assert settings(document, "a.x", QUEUE).queue.auto_create is queues
    assert settings(document, "a.x", TOPIC).queue.auto_create is topics


def test_hornetq_has_no_auto_create() -> None:
    (problem,) = problems(hornetq(setting("a", "<auto-create-queues>false</auto-create-queues>")))
    assert "auto-create-queues: unknown option" in problem


def test_seconds_and_units_of_slow_consumers() -> None:
    document = artemis(
        setting(
            "#",
            "<slow-consumer-threshold>120</slow-consumer-threshold><slow-consumer-policy>kill</slow-consumer-policy>"
            "<slow-consumer-check-period>30</slow-consumer-check-period>"
            "<slow-consumer-threshold-measurement-unit>MESSAGES_PER_MINUTE</slow-consumer-threshold-measurement-unit>",
        )
    )
    slow = settings(document, "a").slow_consumers
    assert (slow.check_period_ms, slow.policy, slow.threshold_per_second()) == (30_000, "KILL", 2.0)


def test_the_same_match_twice_is_the_later_one() -> None:
    document = artemis(
        "<address-settings><address-setting match='a'><max-size-bytes>1</max-size-bytes></address-setting>\n"
        "<address-setting match='a'><max-size-messages>2</max-size-messages></address-setting></address-settings>"
    )
    full = settings(document, "a").full
    assert (full.max_size_bytes, full.max_size_messages) == (-1, 2)
    assert "broker.xml:2: address-setting: 'a' is repeated on line 3, which replaces this one" in notes(document)


def test_values_know_their_lines() -> None:
    document = artemis(setting("a", "\n<max-size-bytes>10M</max-size-bytes>"))
    assert document.addresses[0].sources["full.max_size_bytes"] == "broker.xml:3"
    assert settings(document, "a").full.max_size_bytes == 10 * 1024**2


def test_permissions_of_artemis() -> None:
    document = artemis(
        "<security-settings><security-setting match='#'>"
        "<permission type='createNonDurableQueue' roles='amq'/><permission type='createDurableQueue' roles='amq, ops'/>"
        "<permission type='createAddress' roles='amq'/><permission type='consume' roles='amq'/>"
        "<permission type='send' roles='amq'/><permission type='manage' roles='ops'/></security-setting>"
        "<security-setting match='a'><permission type='send' roles='b'/></security-setting></security-settings>"
    )
    assert problems(document) == []
    permissions = PermissionMap(document.permissions)
    expected: dict[Action, set[str]] = {
        "read": {"amq"},
        "write": {"amq"},
        "create": {"amq"},  # ops may not make addresses
        "subscribe": {"amq"},
        "subscribe-durable": {"amq", "ops"},
        "delete": set(),
        "browse": set(),
    }
    assert {action: set(permissions.groups_for(action, QUEUE, "x")) for action in expected} == expected
    # The most specific setting alone decides, also of what it does not name.
    assert permissions.groups_for("write", QUEUE, "a") == frozenset({"b"})
    assert permissions.groups_for("read", QUEUE, "a") == frozenset()
    assert any("create also requires createAddress, so it is granted to amq" in note for note in notes(document))
    assert any("manage has no effect" in note for note in notes(document))


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("<security-setting-plugin class-name='x'/>", "security-setting-plugin: cannot be enforced here"),
        ("<role-mapping from='a' to='b'/>", "role-mapping: cannot be enforced here"),
        ("<security-setting match='#'><permission type='fly' roles='a'/></security-setting>", "fly: unknown option"),
        (
            "<security-setting match='#'><permission type='send' roles='${x}'/></security-setting>",
            "security-setting: cannot be enforced",
        ),
        ("<security-setting match='a.#.b'/>", "match: 'a.#.b' has '>' or '#' before its end"),
    ],
)
def test_an_acl_that_cannot_be_enforced_refuses_the_file(inner: str, said: str) -> None:
    (problem,) = problems(artemis(f"<security-settings>{inner}</security-settings>"))
    assert problem.startswith("broker.xml:2: ")
    assert said in problem


def test_an_acl_that_is_switched_off_is_noted() -> None:
    document = artemis(
        "<security-enabled>false</security-enabled><security-settings><security-setting match='#'>"
        "<permission type='send' roles='a'/></security-setting></security-settings>"
    )
    assert document.permissions == []
    assert "broker.xml:2: security-settings: has no effect: security-enabled is false" in notes(document)


def test_an_acceptor_of_its_own_comes_before_one_of_all_protocols() -> None:
    document = artemis(
        "<acceptors><acceptor name='artemis'>tcp://0.0.0.0:61616?tcpSendBufferSize=1048576;protocols=CORE,AMQP,STOMP"
        "</acceptor>\n<acceptor name='stomp'>tcp://127.0.0.1:61613?protocols=STOMP;useEpoll=true;connectionsAllowed=9;"
        "stompConsumerCredits=-1</acceptor>\n<acceptor name='mqtt'>tcp://127.0.0.1:1883?protocols=MQTT</acceptor></acceptors>"
    )
    assert problems(document) == []
    endpoint = document.values["listeners.stomp"]
    assert isinstance(endpoint, Endpoint)
    assert (str(endpoint), endpoint.defaults.values) == (
        "tcp://127.0.0.1:61613",
        {"flow.consumer_window_size_bytes": -1},
    )
    assert document.sources["listeners.stomp"] == "broker.xml:3"
    assert merged([document]).stomp.limits.connections == 9
    assert any("tcp://127.0.0.1:1883 has no effect: MQTT is not spoken here" in note for note in notes(document))


def test_an_acceptor_with_tls_is_noted() -> None:
    document = artemis(
        "<acceptors><acceptor name='s'>tcp://0.0.0.0:1?protocols=STOMP;sslEnabled=true</acceptor></acceptors>"
    )
    assert document.values == {}
    assert any("key stores are not read" in note for note in notes(document))


def test_addresses_and_queues_of_artemis() -> None:
    document = artemis(
        "<addresses><address name='a'><anycast><queue name='a' max-consumers='3'><ring-size>5</ring-size></queue>"
        "</anycast>"
        "</address><address name='t'><multicast><queue name='sub'/></multicast></address>"
        "<address name='b'><anycast><queue name='other'/></anycast></address></addresses>"
    )
    assert problems(document) == []
    assert document.destinations == [
        NamedDestination(QUEUE, "a"),
        NamedDestination(TOPIC, "t"),
        NamedDestination(QUEUE, "b"),
    ]
    queue = settings(document, "a").queue
    assert (queue.max_consumers, queue.ring_size) == (3, 5)
    assert any("'sub' is not made" in note for note in notes(document))
    assert any("'other' is not made: a queue has the name of its address, 'b'" in note for note in notes(document))


def test_address_settings_stand_above_connection_factories() -> None:
    document = hornetq(
        setting("#", "")
        + "<connection-factory name='one'><consumer-window-size>0</consumer-window-size></connection-factory>"
    )
    other = artemis(setting("#", "<default-consumer-window-size>7</default-consumer-window-size>"))
    found = AddressMatcher(merged([document, other]).addresses).settings_for(QUEUE, "a")
    assert found.flow.consumer_window_size_bytes == 7


def test_limits_of_the_core() -> None:
    config = merged(
        [
            artemis(
                "<global-max-size>100M</global-max-size><max-disk-usage>90</max-disk-usage>"
                "<min-disk-free>1K</min-disk-free><global-max-messages>5</global-max-messages>"
            )
        ]
    )
    limits = config.limits
    assert (limits.global_max_size_bytes, limits.global_max_messages) == (100 * 1024**2, 5)
    assert (limits.max_disk_usage_percent, limits.min_disk_free_bytes) == (90, 1024)
    assert config.sources["limits.max-disk-usage"] == "broker.xml:2"


def test_wildcards_of_the_files_own() -> None:
    document = artemis(
        setting("a.%", "<max-size-bytes>1</max-size-bytes>")
        + "<wildcard-addresses><any-words>%</any-words><single-word>_</single-word></wildcard-addresses>"
    )
    assert settings(document, "a.b.c").full.max_size_bytes == 1


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("a.#", ("#", "*", "."), "a.#"),
        ("a.*.c", ("#", "*", "."), "a.*.c"),
        ("a.%._", ("_", "%", "."), "a.*.#"),
        ("#", ("#", "*", "/"), "#"),
        ("a/b", ("#", "*", "/"), "a/b"),
    ],
)
def test_patterns_are_translated(text: str, words: tuple[str, str, str], expected: str) -> None:
    assert translate(text, *words).text == expected


@pytest.mark.parametrize(
    ("text", "words"), [("a/#", ("#", "*", "/")), ("a#", ("#", "*", ".")), ("a.#.b", ("#", "*", "."))]
)
def test_patterns_that_cannot_be_meant(text: str, words: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidPattern):
        translate(text, *words)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (artemis(setting("a", "<max-size-byte>1</max-size-byte>")), "did you mean 'max-size-bytes'"),
        (artemis(setting("a", "<max-size-bytes>many</max-size-bytes>")), "max-size-bytes: 'many', allowed is a number"),
        (artemis(setting("a", "<max-size-bytes>${x}</max-size-bytes>")), "is a placeholder"),
        (hornetq(setting("a", "<max-size-messages>1</max-size-messages>")), "max-size-messages: unknown option"),
        (artemis("<address-settings><setting/></address-settings>"), "address-settings: setting: unknown option"),
        (artemis(setting("a#", "")), "match: 'a#' has a wildcard within the element"),
        (artemis("<acceptors><acceptor name='s'>tcp://h?protocols=STOMP</acceptor></acceptors>"), "allowed is tcp://"),
        (
            artemis("<acceptors><acceptor name='s'>tcp://h:1?protocols=STOMP;x=1</acceptor></acceptors>"),
            "acceptor: x: unknown option",
        ),
        (artemis("<addresses><address name='a.#'><anycast/></address></addresses>"), "'a.#', allowed is queue://"),
    ],
)
def test_what_cannot_be_taken_is_told_with_its_line(document: Document, said: str) -> None:
    (problem,) = problems(document)
    assert ":2: " in problem
    assert said in problem


def test_what_a_core_holds_besides_is_noted() -> None:
    document = artemis("<journal-type>NIO</journal-type><mystery/>")
    assert notes(document) == [
        "broker.xml:2: core: journal-type has no effect: the store has a directory and a format of its own",
        "broker.xml:2: core: mystery has no effect: it is not known here",
    ]


@pytest.mark.parametrize(
    ("is_artemis", "option"),
    [(True, option) for option in ADDRESS_SETTING.values()]
    + [(False, option) for option in HORNETQ_ADDRESS_SETTING.values()],
    ids=lambda value: value.name if isinstance(value, Option) else "",
)
def test_every_element_of_an_address_setting_is_taken_or_noted(is_artemis: bool, option: Option) -> None:
    element = f"<{option.name}>{option.example or 'x'}</{option.name}>"
    document = (artemis if is_artemis else hornetq)(setting("a", element))
    assert problems(document) == []
    if option.status == "honoured":
        found = {path: value for entry in document.addresses for path, value in entry.values.items()}
        assert option.values(option.example).items() <= found.items()
    else:
        assert f":2: address-setting: {option.name} has no effect: {option.text}" in notes(document)[0]


@pytest.mark.parametrize("option", options.ACCEPTOR.values(), ids=lambda option: option.name)
def test_every_option_of_an_acceptor_is_taken_or_noted(option: Option) -> None:
    if option.name in ("protocols", "protocol"):
        return
    document = artemis(
        f"<acceptors><acceptor name='s'>tcp://h:1?protocols=STOMP;{option.name}={option.example}</acceptor></acceptors>"
    )
    assert problems(document) == []
    if option.status == "listed":
        assert f"broker.xml:2: acceptor: {option.name} has no effect: {option.text}" in notes(document)
    else:
        endpoint = document.values["listeners.stomp"]
        assert isinstance(endpoint, Endpoint)
        found = {**document.values, **{f"server.{path}": value for path, value in document.values.items()}}
        for path, value in option.values(option.example).items():
            assert {**found, **endpoint.defaults.values}[path] == value


@pytest.mark.parametrize("option", options.CORE.values(), ids=lambda option: option.name)
def test_every_other_element_of_a_core_is_taken_or_noted(option: Option) -> None:
    document = artemis(f"<{option.name}>{option.example}</{option.name}>")
    if option.status == "honoured":
        assert document.values == option.values(option.example)
    elif option.status == "refused":
        assert any(option.text in problem for problem in problems(document))
    else:
        assert notes(document) == [f"broker.xml:2: core: {option.name} has no effect: {option.text}"]


def test_an_acceptor_of_all_protocols_serves_what_has_no_other() -> None:
    document = artemis(
        "<acceptors><acceptor name='all'>tcp://127.0.0.1:61616</acceptor>"
        "<acceptor name='stomp'>tcp://127.0.0.1:61613?protocols=STOMP</acceptor></acceptors>"
    )
    listeners = merged([document]).listeners
    assert (str(listeners.stomp), str(listeners.amqp)) == ("tcp://127.0.0.1:61613", "tcp://127.0.0.1:61616")


@pytest.mark.parametrize("read", [artemis, hornetq])
def test_a_fractional_multiplier_rounds_once(read: Any) -> None:
    """Semantics 3.1: min(trunc(delay x multiplier^(n-1)), max); in steps the 5th and 6th would be 1463 and 1609."""
    elements = "<redelivery-delay>1000</redelivery-delay><redelivery-delay-multiplier>1.1</redelivery-delay-multiplier>"
    policy = settings(read(setting("a", elements)), "a").redelivery
    assert [policy.delay_ms(number) for number in range(1, 7)] == [1000, 1100, 1210, 1331, 1464, 1610]
