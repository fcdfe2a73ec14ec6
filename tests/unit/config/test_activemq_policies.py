"""policyEntries of activemq.xml: which one applies, and what each of its attributes and strategies becomes."""

from __future__ import annotations

import pytest

from config.loader import merged
from config.matching import BOTH, QUEUE, TOPIC, AddressMatcher
from config.options import Option
from config.policies import AddressSettings
from config.sources.activemq_policy_options import POLICY_ENTRY, STRATEGIES
from config.sources.detect import read
from tests.support.config.documents import activemq, notes, policies, problems, settings


def test_what_the_file_leaves_unset_takes_penstocks_defaults() -> None:
    expected = AddressSettings()
    found = settings(policies('<policyEntry queue=">"/>'), "a")
    assert found.dead_letters.process_non_persistent is True  # ActiveMQ's default drops these
    assert found.dead_letters.process_expired is True  # ActiveMQ's way, which drops nothing
    assert found.queue.prioritized_messages is False  # and keeps the order in which messages came
    assert found.full == expected.full
    assert found.redelivery == expected.redelivery


def test_exactly_one_policy_entry_applies() -> None:
    document = policies(
        '<policyEntry queue=">" queuePrefetch="5" memoryLimit="1mb"/><policyEntry queue="a.>" useCache="false"/>'
    )
    assert settings(document, "b").prefetch.queue_prefetch == 5
    assert settings(document, "a.b").prefetch.queue_prefetch == 1000
    assert settings(document, "a.b").full.max_size_bytes == -1


def test_other_files_merge_with_the_one_entry() -> None:
    document = policies('<policyEntry queue="a.>" queuePrefetch="5"/>')
    other = read("p.yaml", b"addresses: [{match: a.b, nack: requeue}, {match: '>', log-non-persistent: true}]")
    found = AddressMatcher(merged([document, other]).addresses).settings_for(QUEUE, "a.b")
    assert (found.prefetch.queue_prefetch, found.nack, found.log_non_persistent) == (5, "requeue", True)


def test_a_default_entry_gives_way_to_every_other() -> None:
    document = activemq(
        "<destinationPolicy><policyMap><defaultEntry><policyEntry queuePrefetch='5'/></defaultEntry>"
        "<policyEntries><policyEntry queue='a'/></policyEntries></policyMap></destinationPolicy>"
    )
    assert settings(document, "b").prefetch.queue_prefetch == 5
    assert settings(document, "a").prefetch.queue_prefetch == 1000


def test_a_composite_name_is_each_of_its_parts() -> None:
    document = policies('<policyEntry queue="a, b.*" queuePrefetch="5"/>')
    assert [settings(document, name).prefetch.queue_prefetch for name in ("a", "b.c", "c")] == [5, 5, 1000]


def test_an_entry_may_name_its_destination_inside() -> None:
    document = policies(
        "<policyEntry topicPrefetch='5'><destination><topic physicalName='a'/></destination></policyEntry>"
    )
    assert settings(document, "a", TOPIC).prefetch.topic_prefetch == 5


def test_values_know_their_lines() -> None:
    document = policies('\n<policyEntry queue="a"\n  queuePrefetch="5"\n  prioritizedMessages="false"/>')
    entry = document.addresses[-1]
    assert entry.sources["prefetch.queue_prefetch"] == "activemq.xml:5"
    assert entry.sources["queue.prioritized_messages"] == "activemq.xml:6"


@pytest.mark.parametrize(
    ("usage", "attributes", "policy", "timeout_ms"),
    [
        ("", "", "BLOCK", 0),
        ("", 'producerFlowControl="true"', "BLOCK", 0),
        ("", 'producerFlowControl="false"', "PAGE", 0),
        ('sendFailIfNoSpace="true"', "", "FAIL", 0),
        ('sendFailIfNoSpace="true"', 'producerFlowControl="false"', "PAGE", 0),
        ('sendFailIfNoSpaceAfterTimeout="3000"', "", "BLOCK", 3000),
        ('sendFailIfNoSpaceAfterTimeout="3000"', 'sendFailIfNoSpaceAfterTimeout="10"', "BLOCK", 10),
        ("", 'sendFailIfNoSpace="true"', "FAIL", 0),
    ],
)
def test_what_a_full_destination_does(usage: str, attributes: str, policy: str, timeout_ms: int) -> None:
    document = activemq(
        f"<destinationPolicy><policyMap><policyEntries><policyEntry queue='a' memoryLimit='10 mb' {attributes}/>"
        "</policyEntries></policyMap></destinationPolicy>"
        f"<systemUsage><systemUsage {usage}/></systemUsage>"
    )
    full = settings(document, "a").full
    assert (full.max_size_bytes, full.address_full_policy) == (10 * 1024**2, policy)
    assert full.block_timeout_ms == timeout_ms


def test_a_shared_dead_letter_queue_of_another_name() -> None:
    document = policies(
        '<policyEntry queue="a"><deadLetterStrategy><sharedDeadLetterStrategy processExpired="false" '
        'expiration="60000">'
        '<deadLetterQueue><queue physicalName="DLQ.a"/></deadLetterQueue>'
        "</sharedDeadLetterStrategy></deadLetterStrategy></policyEntry>"
    )
    found = settings(document, "a")
    assert found.dead_letter_destination(False, "a", None) == (False, "DLQ.a")
    assert found.expiry_destination(False, "a", None) is None
    assert found.dead_letters.expiration_ms == 60000


def test_individual_dead_letter_queues() -> None:
    document = policies(
        '<policyEntry queue=">"><deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ." '
        'useQueueForQueueMessages="true" processNonPersistent="false"/></deadLetterStrategy></policyEntry>'
    )
    found = settings(document, "a")
    assert found.dead_letter_destination(False, "a", None) == (False, "DLQ.a")
    assert found.expiry_destination(False, "a", None) == (False, "DLQ.a")
    assert found.dead_letters.process_non_persistent is False


def test_discarded_dead_letters() -> None:
    document = policies("<policyEntry queue='a'><deadLetterStrategy><discarding/></deadLetterStrategy></policyEntry>")
    assert settings(document, "a").dead_letter_destination(False, "a", None) is None


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ('<abortSlowConsumerStrategy maxSlowDuration="5000" abortConnection="true"/>', ("slow", 5000, True, 30000)),
        ('<abortSlowAckConsumerStrategy maxTimeSinceLastAck="7000"/>', ("slow-ack", 30000, False, 7000)),
    ],
)
def test_slow_consumers(strategy: str, expected: tuple[str, int, bool, int]) -> None:
    document = policies(f"<policyEntry queue='a'><slowConsumerStrategy>{strategy}</slowConsumerStrategy></policyEntry>")
    slow = settings(document, "a").slow_consumers
    found = (slow.abort, slow.max_slow_duration_ms, slow.abort_connection, slow.max_time_since_last_ack_ms)
    assert found == expected


def test_pending_messages_and_eviction() -> None:
    document = policies(
        "<policyEntry topic='a'><pendingMessageLimitStrategy><prefetchRatePendingMessageLimitStrategy "
        "multiplier='2.5'/>"
        "</pendingMessageLimitStrategy><messageEvictionStrategy>"
        "<uniquePropertyMessageEvictionStrategy propertyName='symbol'/></messageEvictionStrategy></policyEntry>"
    )
    pending = settings(document, "a", TOPIC).pending
    assert (pending.strategy, pending.multiplier) == ("prefetch-rate", 2.5)
    assert (pending.eviction, pending.eviction_property) == ("unique-property", "symbol")


@pytest.mark.parametrize(
    ("policy", "count", "time_ms"),
    [
        ('<fixedCountSubscriptionRecoveryPolicy maximumSize="3"/>', 3, -1),
        ('<timedSubscriptionRecoveryPolicy recoverDuration="60000"/>', -1, 60000),
        ("<lastImageSubscriptionRecoveryPolicy/>", 1, -1),
        ("<noSubscriptionRecoveryPolicy/>", 0, -1),
    ],
)
def test_retroactive_consumers(policy: str, count: int, time_ms: int) -> None:
    document = policies(
        f"<policyEntry topic='a'><subscriptionRecoveryPolicy>{policy}</subscriptionRecoveryPolicy></policyEntry>"
    )
    retroactive = settings(document, "a", TOPIC).retroactive
    assert (retroactive.recovery_message_count, retroactive.recovery_time_ms) == (count, time_ms)


ATTRIBUTES = [
    pytest.param(option, id=option.name) for option in POLICY_ENTRY.values() if option.name != "producerFlowControl"
]


@pytest.mark.parametrize("option", ATTRIBUTES)
def test_every_attribute_of_a_policy_entry_is_taken_or_noted(option: Option) -> None:
    document = policies(f"<policyEntry queue='a' {option.name}='{option.example or 'x'}'/>")
    assert problems(document) == []
    if option.status == "honoured":
        values = dict(option.values(option.example))
        assert {path: document.addresses[-1].values[path] for path in values} == values
        assert document.addresses[-1].kinds == QUEUE
    else:
        assert f"activemq.xml:3: policyEntry: {option.name} has no effect: {option.text}" in notes(document)


STRATEGY_OPTIONS = [
    pytest.param(group, name, option, id=f"{name}-{option.name}")
    for group, strategies in STRATEGIES.items()
    for name, (known, _) in strategies.items()
    for option in known.values()
]


@pytest.mark.parametrize(("group", "name", "option"), STRATEGY_OPTIONS)
def test_every_attribute_of_a_strategy_is_taken_or_noted(group: str, name: str, option: Option) -> None:
    document = policies(
        f"<policyEntry queue='a'><{group}><{name} {option.name}='{option.example or 'x'}'/></{group}></policyEntry>"
    )
    assert problems(document) == []
    if option.status == "honoured":
        values = dict(option.values(option.example))
        assert {path: document.addresses[-1].values[path] for path in values} == values
    else:
        assert f"activemq.xml:3: {name}: {option.name} has no effect: {option.text}" in notes(document)


def test_the_base_entry_is_for_everything() -> None:
    document = activemq("")
    assert [(entry.pattern.text, entry.kinds) for entry in document.addresses] == [(">", BOTH)]
