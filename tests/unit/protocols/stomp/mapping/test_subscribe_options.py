"""What a SUBSCRIBE may ask for, in every dialect."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from config.destination_options import parse_destination
from config.model import NO_DEFAULTS, ConnectionDefaults
from engine.consumers.consumer import CLIENT
from engine.values.errors import InvalidOption
from engine.values.options import ReplayStart, SubscribeOptions
from protocols.stomp.mapping.subscribe_options import Asked, durable_name, subscribe_options


def asked(
    headers: dict[str, str],
    query: str = "",
    *,
    is_topic: bool = False,
    is_strict: bool = True,
    defaults: ConnectionDefaults = NO_DEFAULTS,
) -> Asked:
    uri = parse_destination(f"d?{query}" if query else "d").consumer
    return subscribe_options(headers, uri, CLIENT, "s1", is_topic, defaults, is_strict)


def options(headers: dict[str, str], query: str = "", **others: Any) -> SubscribeOptions:
    result = asked(headers, query, **others)
    assert result.warnings == ()
    return result.options


def default_values(**values: object) -> ConnectionDefaults:
    return ConnectionDefaults(MappingProxyType({name.replace("__", "."): value for name, value in values.items()}))


def test_nothing_asked_for() -> None:
    assert options({"destination": "/queue/d", "id": "s1", "ack": "client", "receipt": "r"}) == SubscribeOptions(
        CLIENT, name="s1"
    )


ONE_FIELD = [
    ({"activemq.prefetchSize": " 5 "}, "prefetch", 5),
    ({"activemq.prefetchSize": "0"}, "prefetch", 0),
    ({"prefetch-count": "9"}, "prefetch", 9),
    ({"prefetch-count": "0"}, "prefetch", 2**31 - 1),
    ({"prefetch-count": "9", "activemq.prefetchSize": "3"}, "prefetch", 3),
    ({"selector": "a > 1"}, "selector", "a > 1"),
    ({"selector": "a > 1", "activemq.selector": "b = 2"}, "selector", "b = 2"),
    ({"activemq.exclusive": "True"}, "is_exclusive", True),
    ({"activemq.noLocal": "true"}, "is_no_local", True),
    ({"no-local": "True"}, "is_no_local", True),
    ({"no-local": "true", "activemq.noLocal": "false"}, "is_no_local", False),
    ({"browser": "true"}, "is_browser", True),
    ({"activemq.browser": "true"}, "is_browser", True),
    ({"activemq.retroactive": "true"}, "is_retroactive", True),
    ({"activemq.priority": "-128"}, "priority", -128),
    ({"x-priority": "5"}, "priority", 5),
    ({"x-priority": "5", "activemq.priority": "9"}, "priority", 9),
    ({"activemq.maximumPendingMessageLimit": "10"}, "pending_limit", 10),
    ({"consumer-window-size": "-1"}, "window_bytes", -1),
    ({"consumer-window-size": "0"}, "window_bytes", 0),
    ({"consumer-window-size": "10", "activemq.windowSize": "20"}, "window_bytes", 20),
    ({"activemq.maxRate": "50"}, "rate", 50),
    ({"activemq.maximumRedeliveries": "3"}, "redelivery", {"maximum_redeliveries": 3}),
    ({"activemq.redeliveryPolicy.maximumRedeliveries": "3"}, "redelivery", {"maximum_redeliveries": 3}),
    (
        {"activemq.initialRedeliveryDelay": "500", "activemq.redeliveryDelay": "2000"},
        "redelivery",
        {"initial_redelivery_delay_ms": 500, "redelivery_delay_ms": 2_000, "delays_rollback": True},
    ),
    (
        {
            "activemq.useExponentialBackOff": "true",
            "activemq.backOffMultiplier": "2.5",
            "activemq.maximumRedeliveryDelay": "60000",
        },
        "redelivery",
        {"use_exponential_back_off": True, "back_off_multiplier": 2.5, "maximum_redelivery_delay_ms": 60_000},
    ),
    (
        {"activemq.useCollisionAvoidance": "TRUE", "activemq.collisionAvoidancePercent": "20"},
        "redelivery",
        {"use_collision_avoidance": True, "collision_avoidance_percent": 20.0},
    ),
    ({"activemq.collisionAvoidanceFactor": "0.2"}, "redelivery", {"collision_avoidance_percent": 20.0}),
    ({"from-offset": "17"}, "replay", ReplayStart(entry=17)),
    ({"from-offset": " first"}, "replay", ReplayStart("first")),
    ({"from-offset": "last"}, "replay", ReplayStart("last")),
    ({"activemq.fromOffset": "next"}, "replay", ReplayStart("next")),
    ({"from-time": "1700000000000"}, "replay", ReplayStart(time_ms=1_700_000_000_000)),
    ({"from-time": "2026-01-31T13:00:00+01:00"}, "replay", ReplayStart(time_ms=1_769_860_800_000)),
    ({"from-time": "2026-01-31 12:00"}, "replay", ReplayStart(time_ms=1_769_860_800_000)),
    ({"from-id": "ID:0a1b2c3d-4711"}, "replay", ReplayStart(message_id="ID:0a1b2c3d-4711")),
    ({"x-stream-offset": "first"}, "replay", ReplayStart("first")),
    ({"x-stream-offset": "offset=5000"}, "replay", ReplayStart(entry=5000, is_lenient=True)),
    ({"x-stream-offset": "timestamp=1700000000"}, "replay", ReplayStart(time_ms=1_700_000_000_000)),
]


@pytest.mark.parametrize(("headers", "field", "value"), ONE_FIELD)
def test_each_header(headers: dict[str, str], field: str, value: object) -> None:
    found = options(headers)
    assert getattr(found, field) == value
    names = [name for name in SubscribeOptions.__dataclass_fields__ if name != field]
    plain = SubscribeOptions(CLIENT, name="s1")
    assert [getattr(found, name) for name in names] == [getattr(plain, name) for name in names]


@pytest.mark.parametrize(
    ("headers", "query", "field", "value"),
    [
        ({}, "consumer.prefetchSize=7", "prefetch", 7),
        ({"activemq.prefetchSize": "5"}, "consumer.prefetchSize=7", "prefetch", 5),
        ({"prefetch-count": "5"}, "consumer.prefetchSize=7", "prefetch", 5),
        ({}, "consumer.selector=a%3D1", "selector", "a=1"),
        ({"selector": "b=2"}, "consumer.selector=a%3D1", "selector", "b=2"),
        ({}, "consumer.exclusive=true", "is_exclusive", True),
        ({"activemq.exclusive": "false"}, "consumer.exclusive=true", "is_exclusive", False),
        ({"activemq.noLocal": "false"}, "consumer.noLocal=true", "is_no_local", False),
        ({"browser": "false"}, "consumer.browser=true", "is_browser", False),
        ({}, "consumer.browser=true", "is_browser", True),
        ({}, "consumer.fromOffset=3", "replay", ReplayStart(entry=3)),
        ({}, "consumer.fromTime=1700000000000", "replay", ReplayStart(time_ms=1_700_000_000_000)),
        ({"from-id": "ID:a-1"}, "consumer.fromOffset=3", "replay", ReplayStart(message_id="ID:a-1")),
        ({"activemq.priority": "1"}, "consumer.priority=2", "priority", 1),
        ({"consumer-window-size": "10"}, "consumer.windowSize=20", "window_bytes", 10),
        (
            {"activemq.maximumRedeliveries": "3"},
            "consumer.maximumRedeliveries=9&consumer.redeliveryDelay=5",
            "redelivery",
            {"maximum_redeliveries": 3, "redelivery_delay_ms": 5, "delays_rollback": True},
        ),
    ],
)
def test_headers_stand_above_the_destination_s_options(
    headers: dict[str, str], query: str, field: str, value: object
) -> None:
    assert getattr(options(headers, query), field) == value


@pytest.mark.parametrize(
    ("headers", "query", "is_topic", "expected"),
    [
        ({}, "", False, 1),
        ({}, "", True, 2),
        ({"activemq.subscriptionName": "n"}, "", True, 3),
        ({"browser": "true"}, "", False, 4),
        ({"activemq.prefetchSize": "9"}, "", False, 9),
        ({}, "consumer.prefetchSize=8", True, 8),
    ],
)
def test_the_connection_s_defaults_stand_lowest(
    headers: dict[str, str], query: str, is_topic: bool, expected: int
) -> None:
    defaults = default_values(
        prefetch__queue_prefetch=1,
        prefetch__topic_prefetch=2,
        prefetch__durable_topic_prefetch=3,
        prefetch__queue_browser_prefetch=4,
    )
    assert options(headers, query, is_topic=is_topic, defaults=defaults).prefetch == expected


def test_what_else_a_connection_may_say() -> None:
    defaults = default_values(
        redelivery__maximum_redeliveries=1,
        redelivery__redelivery_delay_ms=2,
        flow__consumer_window_size_bytes=3,
        flow__consumer_max_rate_per_second=4,
    )
    found = options({"activemq.maximumRedeliveries": "7"}, defaults=defaults)
    assert found.redelivery == {"maximum_redeliveries": 7, "redelivery_delay_ms": 2}
    assert (found.window_bytes, found.rate) == (3, 4)
    assert options({"consumer-window-size": "9", "activemq.maxRate": "8"}, defaults=defaults).window_bytes == 9


def test_defaults_of_topics_are_not_for_queues() -> None:
    defaults = ConnectionDefaults(is_exclusive=True, is_retroactive=True, maximum_pending_message_limit=5)
    on_queue = options({}, defaults=defaults)
    assert (on_queue.is_exclusive, on_queue.is_retroactive, on_queue.pending_limit) == (True, False, 0)
    on_topic = options({}, is_topic=True, defaults=defaults)
    assert (on_topic.is_retroactive, on_topic.pending_limit) == (True, 5)
    off = {"activemq.exclusive": "false", "activemq.retroactive": "false", "activemq.maximumPendingMessageLimit": "2"}
    refused = options(off, is_topic=True, defaults=defaults)
    assert (refused.is_exclusive, refused.is_retroactive, refused.pending_limit) == (False, False, 2)


@pytest.mark.parametrize(
    ("headers", "name", "is_durable", "is_shared"),
    [
        ({"activemq.subscriptionName": "n"}, "n", True, False),
        ({"durable-subscription-name": "n"}, "n", True, False),
        ({"durable-subscriber-name": "n"}, "n", True, False),
        # stomp-php in its ActiveMQ mode sends both.
        ({"activemq.subscriptionName": "client", "durable-subscriber-name": "s1"}, "client", True, False),
        ({"durable": "true", "destination": "/topic/d"}, "/topic/d:s1", True, True),
        ({"persistent": "true", "auto-delete": "false", "destination": "/topic/d"}, "/topic/d:s1", True, True),
        ({"durable": "true", "x-queue-name": "q"}, "q", True, True),
        ({"durable": "true", "auto-delete": "true"}, "", False, False),
        ({"x-queue-name": "q"}, "q", False, True),
        ({"shared-subscription-name": "n"}, "n", False, True),
        ({"shared-subscription-name": "n", "durable": "true"}, "n", True, True),
    ],
)
def test_named_subscriptions(headers: dict[str, str], name: str, is_durable: bool, is_shared: bool) -> None:
    found = options(headers, is_topic=True)
    assert (found.subscription, found.is_durable, found.is_shared) == (name, is_durable, is_shared)


def test_a_name_in_the_destination() -> None:
    found = options({}, "consumer.subscriptionName=n", is_topic=True)
    assert (found.subscription, found.is_durable) == ("n", True)


def test_rabbitmq_s_headers_of_queues_ask_for_nothing_on_queues() -> None:
    headers = {"durable": "true", "auto-delete": "false", "persistent": "true", "x-queue-name": "q"}
    assert options(headers) == SubscribeOptions(CLIENT, name="s1")


def test_kept_by_rabbitmq_but_not_in_a_log() -> None:
    with pytest.raises(InvalidOption, match="auto-delete:false needs durable:true"):
        options({"auto-delete": "false"}, is_topic=True)


def test_durable_name() -> None:
    assert durable_name({"durable-subscriber-name": "b", "activemq.subscriptionName": ""}) == "b"
    assert durable_name({"id": "s"}) == ""


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"activemq.prefetchSize": "-1"}, r"activemq\.prefetchSize: '-1'"),
        ({"activemq.prefetchSize": ""}, r"activemq\.prefetchSize: ''"),
        ({"prefetch-count": "many"}, "prefetch-count is 'many'"),
        ({"activemq.exclusive": "perhaps"}, r"activemq\.exclusive: 'perhaps', allowed is true or false"),
        ({"activemq.priority": "200"}, r"activemq\.priority: '200'"),
        ({"x-priority": "high"}, "x-priority: 'high'"),
        ({"consumer-window-size": "10k"}, "consumer-window-size: '10k'"),
        ({"browser": "yes please"}, "browser is 'yes please'; allowed are true and false"),
        ({"activemq.maximumRedeliveries": "-2"}, r"activemq\.maximumRedeliveries: '-2'"),
        ({"from-offset": "-1"}, "from-offset is '-1'; allowed is a queue offset, first, last or next"),
        ({"from-offset": ""}, "from-offset is ''; allowed"),
        ({"from-time": "yesterday"}, "from-time is 'yesterday'; allowed are milliseconds since 1970 or a time such as"),
        ({"from-offset": "1", "from-id": "ID:a-1"}, "from-offset and from-id both set the start of the replay"),
        ({"from-offset": "1", "x-stream-offset": "next"}, "from-offset and x-stream-offset both set"),
        ({"x-stream-offset": "5000"}, "allowed are first, last, next, offset=N and timestamp=SECONDS"),
        ({"x-stream-offset": "offset=x"}, "x-stream-offset is 'x'; allowed is a whole number"),
        ({"activemq.collisionAvoidanceFactor": "3"}, r"activemq\.collisionAvoidanceFactor: '3'"),
    ],
)
def test_values_that_make_no_sense(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        asked(headers, is_strict=False)


def test_hints_without_effect_are_taken_without_a_word() -> None:
    headers = {"activemq.subcriptionName": "x", "transformation": "jms-xml"}
    assert options(headers) == SubscribeOptions(CLIENT, name="s1")


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        (
            "activemq.prefetchsize",
            "SUBSCRIBE has 'activemq.prefetchsize': unknown option (did you mean 'activemq.prefetchSize'?)",
        ),
        (
            "ActiveMQ.prefetchSize",
            "SUBSCRIBE has 'ActiveMQ.prefetchSize': unknown option (did you mean 'activemq.prefetchSize'?)",
        ),
        ("consumer.prefetchSize", "SUBSCRIBE has a header 'consumer.prefetchSize' that has no effect here"),
        ("x-message-ttl", "SUBSCRIBE has a header 'x-message-ttl' that has no effect here"),
    ],
)
def test_headers_in_vain_are_warned_about_or_refused(name: str, warning: str) -> None:
    result = asked({name: "1"}, is_strict=False)
    assert (result.options, result.warnings) == (SubscribeOptions(CLIENT, name="s1", remarks=(warning,)), (warning,))
    with pytest.raises(InvalidOption) as caught:
        asked({name: "1"}, is_strict=True)
    assert str(caught.value) == warning


def test_options_without_an_effect_are_remarks_for_the_operator() -> None:
    result = options({"activemq.dispatchAsync": "true"}, "consumer.noRangeAcks=true")
    assert result.remarks == (
        "consumer.noRangeAcks has no effect: between ActiveMQ's own client and broker only",
        "activemq.dispatchAsync has no effect: always the case here",
    )


def test_a_warning_is_one_short_line_and_there_are_few_of_them() -> None:
    headers = {f"activemq.x\n2026-01-01 forged{number}{'y' * 500}": "1" for number in range(100)}
    warnings = asked(headers, is_strict=False).warnings
    assert len(warnings) == 4
    assert warnings[-1] == "SUBSCRIBE has 97 more headers that have no effect here"
    assert all("\n" not in text and len(text) < 200 for text in warnings)
