"""Lint: each trap with its line, and no word where there is none."""

from __future__ import annotations

import pytest

from config.matching import Pattern
from config.reports.lint import lint
from config.scram import hash_password


def found(name: str, text: str) -> list[str]:
    return [str(finding) for finding in lint([(name, text.encode())])]


def activemq(inner: str) -> list[str]:
    return found("a.xml", f'<broker schedulerSupport="true">\n{inner}\n</broker>')


def policies(inner: str) -> list[str]:
    return activemq(
        f"<destinationPolicy><policyMap><policyEntries>\n{inner}\n</policyEntries></policyMap></destinationPolicy>"
    )


def core(inner: str, name: str = "b.xml") -> list[str]:
    return found(name, f'<configuration xmlns="urn:activemq"><core>\n{inner}\n</core></configuration>')


def hornetq(inner: str) -> list[str]:
    return found("h.xml", f'<configuration xmlns="urn:hornetq">\n{inner}\n</configuration>')


def setting(match: str, inner: str) -> str:
    return f"<address-setting match='{match}'>{inner}</address-setting>"


def settings(*each: str) -> str:
    return f"<address-settings>{''.join(each)}</address-settings>"


def warnings(lines: list[str]) -> list[str]:
    return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]


def test_problems_and_notes_come_first_of_all() -> None:
    lines = found("p.yaml", "dta: x\nlisteners: {stomp: 'tcp://127.0.0.1:1?jms.useAsyncSend=true'}\n")
    assert lines[0].startswith("error: p.yaml:1: dta: unknown key")
    assert activemq("<persistenceAdapter/>")[-1].startswith("info: a.xml:2: broker: persistenceAdapter has no effect")


def test_a_policy_entry_switched_off_by_a_narrower_one() -> None:
    (told,) = [
        line
        for line in warnings(
            policies(
                '<policyEntry queue="&gt;" prioritizedMessages="true"/>\n<policyEntry queue="a.>" useCache="true"/>'
            )
        )
        if "switches" in line
    ]
    assert told == (
        "a.xml:4: policyEntry: exactly one entry applies to a destination: for 'a.>' this one switches off '>' at "
        "a.xml:3, and does not set its prioritized-messages"
    )


def test_an_entry_that_repeats_what_it_switches_off_is_no_trap() -> None:
    lines = policies(
        '<policyEntry queue=">" prioritizedMessages="true"/><policyEntry queue="a" prioritizedMessages="false"/>'
    )
    assert warnings(lines) == []


def test_entries_that_only_overlap() -> None:
    lines = warnings(policies('<policyEntry queue="a.*"/>\n<policyEntry queue="*.b"/>'))
    assert len(lines) == 1
    assert "'*.b' and 'a.*' at a.xml:3 match some names both" in lines[0]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ('collisionAvoidanceFactor="0.1"', "cannot set it (its setter is collisionAvoidancePercent)"),
        ('useCollisionAvoidance="true"', "so its spread grows"),
        ('redeliveryDelay="500"', "500 ms is below 1000: ActiveMQ's plugin refuses to start"),
        ('initialRedeliveryDelay="0"', "0 ms is below 1000: ActiveMQ's plugin refuses to start"),
        ('maximumRedeliveryDelay="9000"', "caps the back-off only, and the entry switches none on"),
        ('backOffMultiplier="3"', "has no effect unless use-exponential-back-off is true"),
        ('useExponentialBackOff="true" backOffMultiplier="1"', "1 switches the back-off off"),
        (
            'useExponentialBackOff="true" maximumRedeliveryDelay="500" redeliveryDelay="2000"',
            "500 ms is below redelivery-delay 2000 ms",
        ),
    ],
)
def test_traps_of_redelivery(attributes: str, said: str) -> None:
    lines = warnings(
        activemq(
            "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>\n"
            f"<redeliveryPolicy queue='a' {attributes}/></redeliveryPolicyEntries></redeliveryPolicyMap>"
            "</redeliveryPolicyMap></redeliveryPlugin></plugins>"
        )
    )
    assert len(lines) == 1
    assert lines[0].startswith("a.xml:3: ")
    assert said in lines[0]


def test_the_plugin_gives_no_openwire_client_further_attempts() -> None:
    lines = activemq("<plugins><redeliveryPlugin/></plugins>")
    said = "info: a.xml:2: redeliveryPlugin: ActiveMQ redelivers by it also what an OpenWire client has given up"
    assert any(line.startswith(said) for line in lines)


def test_the_plugin_needs_a_scheduler_there() -> None:
    lines = found("a.xml", "<broker><plugins><redeliveryPlugin/></plugins></broker>")
    assert (
        "a.xml:1: broker: redeliveryPlugin needs schedulerSupport=true in ActiveMQ; here it needs nothing"
        in warnings(lines)
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            '<policyEntry queue="a" queuePrefetch="5"/>',
            "queuePrefetch: ActiveMQ reads a client's own prefetch of 1000 as unset",
        ),
        ('<policyEntry topic="a" topicPrefetch="5"/>', "prefetch of 32767 as unset"),
        ('<policyEntry queue="a" memoryLimit="1mb"/>', "ActiveMQ confirms persistent STOMP messages beyond it"),
        (
            "<policyEntry queue='a'><slowConsumerStrategy><abortSlowConsumerStrategy/>"
            "</slowConsumerStrategy></policyEntry>",
            "an ActiveMQ STOMP client never hears",
        ),
    ],
)
def test_traps_of_policy_entries(entry: str, said: str) -> None:
    lines = warnings(policies(entry))
    assert len(lines) == 1
    assert lines[0].startswith("a.xml:3: ")
    assert said in lines[0]


def test_a_prefetch_of_zero() -> None:
    assert any("0 is silence" in line for line in warnings(policies('<policyEntry queue="a" queuePrefetch="0"/>')))


def test_how_often_a_message_is_delivered() -> None:
    lines = activemq(
        "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><defaultEntry>"
        "<redeliveryPolicy maximumRedeliveries='3'/></defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap>"
        "</redeliveryPlugin></plugins>"
    )
    assert (
        "info: a.xml:2: redeliveryPolicy: maximumRedeliveries: 3 makes 4 deliveries in all, here for every client"
        in lines
    )


def test_what_activemq_does_where_nothing_is_set() -> None:
    lines = activemq("")
    for said in ("processNonPersistent is not set", "a STOMP NACK is a dead letter at once", "memoryLimit is not set"):
        assert any(line.startswith("info: a.xml:1: ") and said in line for line in lines), said
    lines = policies(
        "<policyEntry queue='>'><deadLetterStrategy>"
        "<sharedDeadLetterStrategy processNonPersistent='true'/></deadLetterStrategy></policyEntry>"
    )
    assert not any("processNonPersistent is not set" in line for line in lines)


def test_what_artemis_does_where_nothing_is_set() -> None:
    lines = core(settings(setting("#", "")))
    for said in (
        "dead-letter-address is not set",
        "max-delivery-attempts is not set: 10 deliveries there, 7 here",
        "the manual's 'BLOCK at 10 MiB' is in old sample files and in no code",
    ):
        assert any(line.startswith("info: b.xml:1: ") and said in line for line in lines), said
    lines = core(settings(setting("#", "<max-size-bytes>1</max-size-bytes>")))
    assert not any("BLOCK at 10 MiB" in line for line in lines)


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("<address-full-policy>BLOCK</address-full-policy>", "hold back no STOMP sender under BLOCK"),
        ("<max-delivery-attempts>1</max-delivery-attempts>", "counts deliveries: 1 is no redelivery at all"),
        ("<slow-consumer-policy>KILL</slow-consumer-policy>", "KILL closes the whole connection"),
        ("<max-size-bytes>100</max-size-bytes><page-size-bytes>100</page-size-bytes>", "is not below max-size-bytes"),
        ("<redelivery-delay-multiplier>2</redelivery-delay-multiplier>", "stops at 10 times redelivery-delay"),
        ("<max-redelivery-delay>5</max-redelivery-delay>", "caps the back-off only"),
    ],
)
def test_traps_of_address_settings(inner: str, said: str) -> None:
    lines = warnings(core(settings(setting("#", inner))))
    assert len(lines) == 1
    assert lines[0].startswith("b.xml:2: ")
    assert said in lines[0]


def test_windows_are_bytes() -> None:
    factory = "<connection-factory name='f'><producer-window-size>10</producer-window-size></connection-factory>"
    assert warnings(hornetq(factory)) == ["h.xml:2: producer-window-size: 10 is in bytes, not in messages"]


@pytest.mark.parametrize(("name", "text"), [("expiry-delay", "5"), ("last-value-queue", "true")])
def test_what_hornetq_does_not_inherit(name: str, text: str) -> None:
    inner = settings(setting("jms.queue.#", f"<{name}>{text}</{name}>"), setting("jms.queue.a", ""))
    (line,) = [line for line in warnings(hornetq(inner)) if "does not pass it on" in line]
    assert f"{name} comes from 'jms.queue.#' on line 2 here" in line
    assert not any("does not pass it on" in line for line in core(inner))


def test_the_rest_includes_nothing_here() -> None:
    lines = hornetq(settings(setting("a.#", "")))
    assert (
        "info: h.xml:2: address-setting: match 'a.#' is for 'a' itself, too; in HornetQ only for what is below it"
        in lines
    )


def test_another_order_of_precedence() -> None:
    lines = warnings(core(settings(setting("a.#", ""), setting("*.b", ""))))
    assert lines == [
        "b.xml:2: address-setting: 'a.#' and '*.b' match some names both: there '*.b' comes first, here 'a.#'"
    ]
    assert warnings(core(settings(setting("a.#", ""), setting("b.*", "")))) == []


def test_permissions_without_users() -> None:
    lines = warnings(found("p.yaml", "permissions: [{match: a, read: x}]"))
    assert lines == [
        "p.yaml:1: permissions: there are permissions and no users: without a login nobody is in a group, so only '*' "
        "may do anything"
    ]


def test_groups_that_nobody_is_in() -> None:
    plugins = (
        "<plugins><simpleAuthenticationPlugin><users><authenticationUser username='a' password='p' groups='g'/></users>"
        "</simpleAuthenticationPlugin><authorizationPlugin><map><authorizationMap><authorizationEntries>"
        "<authorizationEntry queue='>' read='g,h' write='*'/></authorizationEntries></authorizationMap></map>"
        "</authorizationPlugin></plugins>"
    )
    assert warnings(activemq(plugins)) == ["a.xml:2: permissions: no user is in h"]


def test_yaml_without_traps() -> None:
    assert found("p.yaml", "addresses: [{match: a, nack: requeue}]") == []


@pytest.mark.parametrize("key", ["last-value-queue", "non-destructive", "purge-on-no-consumers"])
def test_queues_in_memory_without_a_limit(key: str) -> None:
    (told,) = found("p.yaml", f"addresses:\n- match: a.*\n  nack: requeue\n  {key}: true\n")
    assert told.startswith(f"warning: p.yaml:4: {key}: 'a.*' keeps its messages in memory, and nothing limits them")
    assert found("p.yaml", f"addresses: [{{match: a.*, {key}: false}}]") == []


@pytest.mark.parametrize(
    "limit", ["match: a.*, max-size-bytes: 1 MiB", "match: '>', max-size-messages: 9", "match: a.>, ring-size: 5"]
)
def test_queues_in_memory_with_one(limit: str) -> None:
    in_memory = "{match: a.*, last-value-queue: true}"
    assert found("p.yaml", f"addresses: [{{{limit}}}, {in_memory}]") == []
    for other in ("match: a.b", "match: a.*, kind: topic", "match: b.>"):
        assert found("p.yaml", f"addresses: [{{{other}, max-size-bytes: 1 MiB}}, {in_memory}]") != []


def test_xml_that_is_none_is_one_error() -> None:
    assert [line.partition(":")[0] for line in found("p.xml", "<broker>")] == ["error"]


@pytest.mark.parametrize(
    ("broad", "narrow", "expected"),
    [
        (">", "a.>", True),
        ("a.>", "a", True),
        ("a.*", "a.b", True),
        ("a.*", "a.*", True),
        ("a.>", "a.*", True),
        ("a.*", "a.>", False),
        ("a.*.>", "a.>", False),
        ("a.b", "a.*", False),
        ("*.b", "a.*", False),
        ("a", "a.b", False),
        ("*.>", "a", True),
    ],
)
def test_covers(broad: str, narrow: str, expected: bool) -> None:
    assert Pattern.parse(broad).covers(Pattern.parse(narrow)) is expected


def test_the_place_is_that_of_the_grant() -> None:
    files = [
        ("p.yaml", b"users: {}\npermissions: [{match: a, read: g}]"),
        ("q.yaml", b"permissions:\n- match: b\n  write: h\n"),
    ]
    users = b"<configuration xmlns='urn:hornetq'><user name='u' password='p'><role name='g'/></user></configuration>"
    told = [str(finding) for finding in lint([*files, ("users.xml", users)])]
    assert told == ["warning: q.yaml:3: permissions: no user is in h"]


def test_plain_passwords_beyond_loopback() -> None:
    users = b"users:\n  ann:\n    verifiers:\n      - %b\n" % hash_password("x", iterations=4096)[0].encode()
    listeners = b"listeners:\n  stomp: tcp://0.0.0.0:61613\n"
    (finding,) = lint([("a.yaml", users), ("b.yaml", listeners)])
    assert str(finding).startswith(
        "warning: b.yaml:2: listeners.stomp: tcp://0.0.0.0:61613 is open to the network without"
    )
    assert lint([("b.yaml", listeners)]) == []
