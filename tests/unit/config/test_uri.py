"""Connection URIs: addresses, options, failover."""

from __future__ import annotations

import operator

import pytest

from config.destination_options import consumer_options
from config.matching import with_values
from config.model import NO_DEFAULTS, ConnectionDefaults, Endpoint, ServerConfig
from config.options import Option, OptionError
from config.policies import AddressSettings
from config.sources.uri import ListenerUri, parse_client_uri, parse_endpoint, subscribe_headers
from config.sources.uri_options import OPTIONS

STOMP = ListenerUri("tcp://127.0.0.1:61613", "tcp", "stomp")
AMQP = ("amqp",)
TCP = ("tcp",)


def test_an_address_without_options() -> None:
    endpoint = parse_endpoint("tcp://h:61613", TCP)
    assert endpoint == Endpoint("tcp", "h", 61613)
    assert endpoint.defaults is NO_DEFAULTS


def test_the_example_of_the_issue() -> None:
    endpoint = parse_endpoint(
        "tcp://h:61613?jms.prefetchPolicy.queuePrefetch=1&jms.redeliveryPolicy.maximumRedeliveries=3", TCP
    )
    assert endpoint.defaults.values == {
        "prefetch.queue_prefetch": 1,
        "prefetch.non_persistent_queue_prefetch": 1,
        "redelivery.maximum_redeliveries": 3,
    }
    assert endpoint.defaults.sources["prefetch.queue_prefetch"] == "jms.prefetchPolicy.queuePrefetch"


def test_all_prefetches_at_once() -> None:
    endpoint = parse_endpoint("amqp://h:5672?jms.prefetchPolicy.all=50", AMQP)
    settings = with_values(AddressSettings(), endpoint.defaults.values)
    assert [settings.prefetch.default_for(*case) for case in ((False, False, False), (True, False, False))] == [50, 50]
    assert settings.prefetch.default_for(True, True, False) == settings.prefetch.default_for(False, False, True) == 50


def test_a_later_option_stands_above_all() -> None:
    endpoint = parse_endpoint("tcp://h:1?jms.prefetchPolicy.all=50&jms.prefetchPolicy.topicPrefetch=7", TCP)
    assert endpoint.defaults.values["prefetch.topic_prefetch"] == 7
    assert endpoint.defaults.values["prefetch.queue_prefetch"] == 50


def test_a_prefetch_is_clamped() -> None:
    endpoint = parse_endpoint("tcp://h:1?jms.prefetchPolicy.topicPrefetch=32767", TCP)
    assert endpoint.defaults.values == {"prefetch.topic_prefetch": 32766}


def test_what_a_connection_is_by_default() -> None:
    endpoint = parse_endpoint(
        "tcp://h:1?jms.clientID=billing&jms.useRetroactiveConsumer=true&jms.exclusiveConsumer=true"
        "&jms.prefetchPolicy.maximumPendingMessageLimit=9",
        TCP,
    )
    assert endpoint.defaults == ConnectionDefaults(
        client_id="billing", is_retroactive=True, is_exclusive=True, maximum_pending_message_limit=9
    )


def test_a_delay_makes_rollbacks_wait() -> None:
    endpoint = parse_endpoint("tcp://h:1?jms.redeliveryPolicy.redeliveryDelay=50", TCP)
    assert endpoint.defaults.values["redelivery.delays_rollback"] is True


def test_limits_are_the_servers() -> None:
    endpoint = parse_endpoint("stomp://h:1?maximumConnections=5&transport.hbGracePeriodMultiplier=1.5", ("stomp",))
    assert endpoint.defaults is NO_DEFAULTS
    config = with_values(ServerConfig(), endpoint.server_values)
    assert (config.stomp.limits.connections, config.stomp.heart_beat_grace) == (5, 1.5)


def test_an_option_without_an_effect_is_noted() -> None:
    endpoint = parse_endpoint("tcp://h:1?jms.useAsyncSend=true", TCP)
    assert endpoint.notes[0].startswith("jms.useAsyncSend has no effect: between ActiveMQ's own client")
    assert endpoint.defaults is NO_DEFAULTS


@pytest.mark.parametrize("option", [option for option in OPTIONS.values() if option.status == "honoured"])
def test_every_honoured_option_sets_something_that_is_there(option: Option) -> None:
    endpoint = parse_endpoint(f"tcp://h:1?{option.name}={option.example}", TCP)
    for path in endpoint.defaults.values:
        operator.attrgetter(path)(AddressSettings())
    for path in endpoint.server_values:
        operator.attrgetter(path)(ServerConfig())
    assert endpoint.server_values or endpoint.defaults != NO_DEFAULTS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tcp://h:1?jms.prefetchPolicy.queuePrefech=1", "did you mean 'jms.prefetchPolicy.queuePrefetch'"),
        ("tcp://h:1?jms.password=secret", "a password does not belong in a URI"),
        ("tcp://h:1?transport.needClientAuth=true", "TLS is set by the keys under tls"),
        ("tcp://h:1?jms.prefetchPolicy.all=x", "'x', allowed is an integer"),
    ],
)
def test_an_option_that_cannot_be_taken(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_endpoint(text, TCP)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(OptionError) as caught:
        parse_endpoint("tcp://h:1?jms.password=secret", TCP)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["tcp://u:p@h:1", "tcp://h:1/path", "tcp://h:1#x", "tcp://h", "tcp://:1", "ssl://h:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError):
        parse_endpoint(text, TCP)


def test_a_listeners_uri_keeps_its_options() -> None:
    endpoint = STOMP.parse("stomp://[::1]:5?jms.prefetchPolicy.all=1")
    assert (endpoint.scheme, endpoint.host, endpoint.port) == ("tcp", "::1", 5)
    assert STOMP.show(endpoint) == "tcp://[::1]:5?jms.prefetchPolicy.all=1"
    assert STOMP.parse(STOMP.show(endpoint)) == endpoint


def test_an_http_listener_takes_no_options() -> None:
    with pytest.raises(ValueError, match="has options, which only messaging listeners have"):
        ListenerUri("http://127.0.0.1:1", "http", has_options=False).parse("http://h:1?jms.prefetchPolicy.all=1")


def test_a_listener_with_a_bad_option_says_which() -> None:
    with pytest.raises(ValueError, match=r"has an option that cannot be accepted: jms\.x: unknown option"):
        STOMP.parse("tcp://h:1?jms.x=1")


def test_one_address_of_a_client() -> None:
    uri = parse_client_uri("tcp://h:1?jms.useAsyncSend=true", TCP)
    assert [str(endpoint) for endpoint in uri.endpoints] == ["tcp://h:1"]
    assert not uri.is_random
    assert len(uri.notes) == 1


@pytest.mark.parametrize(
    ("text", "addresses", "is_random"),
    [
        ("failover:(tcp://a:1,tcp://b:2)", ["tcp://a:1", "tcp://b:2"], True),
        ("failover:(tcp://a:1, tcp://b:2)?randomize=false", ["tcp://a:1", "tcp://b:2"], False),
        ("failover://(tcp://a:1)?randomize=true", ["tcp://a:1"], False),
        ("failover:tcp://a:1,tcp://b:2", ["tcp://a:1", "tcp://b:2"], True),
    ],
)
def test_failover(text: str, addresses: list[str], is_random: bool) -> None:
    uri = parse_client_uri(text, TCP)
    assert [str(endpoint) for endpoint in uri.endpoints] == addresses
    assert uri.is_random is is_random


@pytest.mark.parametrize("prefix", ["nested.", ""])
def test_options_behind_the_parenthesis_are_of_every_address(prefix: str) -> None:
    uri = parse_client_uri(f"failover:(tcp://a:1,tcp://b:2)?{prefix}jms.prefetchPolicy.all=3", TCP)
    assert [endpoint.defaults.values["prefetch.queue_prefetch"] for endpoint in uri.endpoints] == [3, 3]


def test_reconnecting_is_noted() -> None:
    uri = parse_client_uri("failover:(tcp://a:1)?maxReconnectDelay=100", TCP)
    assert uri.notes == ("maxReconnectDelay has no effect: reconnecting is the client's own affair",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("failover:()", "has no list of addresses"),
        ("failover:(tcp://a:1)x", "has no list of addresses"),
        ("failover:(tcp://a:1)?randomise=false", "did you mean 'randomize'"),
        ("failover:(" + ",".join(["tcp://a:1"] * 101) + ")", "has 101 addresses, at most 100"),
    ],
)
def test_what_is_no_failover(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_client_uri(text, TCP)


def test_a_client_may_leave_out_the_port() -> None:
    uri = parse_client_uri("failover:(tcp://a,tcp://b:2)", TCP, 61613)
    assert [endpoint.port for endpoint in uri.endpoints] == [61613, 2]


@pytest.mark.parametrize(
    ("query", "is_topic", "expected"),
    [
        ("jms.prefetchPolicy.all=5", False, {"activemq.prefetchSize": "5"}),
        ("jms.prefetchPolicy.queuePrefetch=5", True, {}),
        ("jms.prefetchPolicy.topicPrefetch=7", True, {"activemq.prefetchSize": "7"}),
        ("jms.redeliveryPolicy.maximumRedeliveries=3", False, {"activemq.maximumRedeliveries": "3"}),
        ("jms.nonBlockingRedelivery=false", False, {"activemq.nonBlockingRedelivery": "false"}),
        ("consumerWindowSize=0&consumerMaxRate=9", False, {"activemq.windowSize": "0", "activemq.maxRate": "9"}),
        ("jms.exclusiveConsumer=true&jms.useRetroactiveConsumer=true", False, {"activemq.exclusive": "true"}),
        ("jms.exclusiveConsumer=true&jms.useRetroactiveConsumer=true", True, {"activemq.retroactive": "true"}),
        (
            "jms.redeliveryPolicy.collisionAvoidanceFactor=0.2&jms.redeliveryPolicy.redeliveryDelay=50",
            False,
            {"activemq.collisionAvoidancePercent": "20.0", "activemq.redeliveryDelay": "50"},
        ),
        ("jms.prefetchPolicy.maximumPendingMessageLimit=4", True, {"activemq.maximumPendingMessageLimit": "4"}),
    ],
)
def test_a_client_asks_by_headers(query: str, is_topic: bool, expected: dict[str, str]) -> None:
    headers = subscribe_headers(parse_endpoint(f"tcp://h:1?{query}", TCP).defaults, is_topic)
    assert headers == expected
    # The gateway reads them as the options they come from.
    consumer_options([(name.removeprefix("activemq."), text) for name, text in headers.items()])
