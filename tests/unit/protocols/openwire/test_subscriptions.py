"""Consumers of OpenWire clients: pulls, browsers, selectors, topics, durable subscriptions, limits."""

from __future__ import annotations

import pytest

from protocols import map_message as words
from protocols.map_message import Typed
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.session.acknowledgements import (
    STANDARD,
)
from protocols.openwire.session.requests import BEGIN
from protocols.openwire.wire.commands import (
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    MessageDispatch,
    MessagePull,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionInfo,
)
from protocols.openwire.wire.identities import (
    ConnectionId,
    ConsumerId,
)
from protocols.openwire.wire.messages import BytesMessage
from protocols.openwire.wire.property_map import write_map
from tests.support.engine.engine_world import address
from tests.support.protocols.openwire_gateway import (
    OpenWireGateway,
    OpenWirePeer,
    message_in,
    queue,
    sent,
    strings,
    text_in,
    topic,
)


def pull(peer: OpenWirePeer, timeout: int, destination: str = "q") -> None:
    peer.send(MessagePull(consumer_id=peer.consumer_id(), destination=queue(destination), timeout=timeout))


def test_a_pull_takes_one_message() -> None:
    gateway, peer = sent("a", "b", prefetch=0)
    assert peer.take() == []
    pull(peer, 0)
    (dispatch,) = peer.dispatches()
    gateway.advance(100)
    assert peer.take() == []
    pull(peer, -1)  # although the first is not settled
    assert peer.texts() == ["b"]
    peer.acknowledge(dispatch)
    assert gateway.stats("q").depth == 1


def test_a_pull_that_finds_nothing_is_answered() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"), prefetch=0)
    pull(peer, -1)
    assert peer.one(MessageDispatch).message is None
    pull(peer, 500)
    gateway.advance(400)
    assert peer.take() == []
    gateway.advance(200)
    assert peer.one(MessageDispatch).message is None
    gateway.connect_openwire().publish(queue("q"), "late")
    assert peer.take() == []  # nobody has asked


def test_a_pull_waits_for_ever() -> None:
    gateway = OpenWireGateway(openwire=OpenWireSettings(idle_time_ms=0))
    peer = gateway.openwire_consumer(queue("q"), prefetch=0)
    pull(peer, 0)
    gateway.advance(100_000)
    assert peer.take() == []
    gateway.connect_openwire().publish(queue("q"), "late")
    assert peer.texts() == ["late"]


def test_a_reconnected_consumer_gets_its_prefetch_later() -> None:
    gateway, peer = sent("a", "b", prefetch=0)
    assert peer.take() == []
    peer.send(ConsumerControl(consumer_id=peer.consumer_id(), destination=queue("q"), prefetch=10))
    assert peer.texts() == ["a", "b"]
    assert gateway.stats("q").consumers == 1


def test_a_consumer_is_added_once() -> None:
    gateway, peer = sent("a")
    peer.consume(queue("q"))
    assert gateway.stats("q").consumers == 1
    assert peer.texts() == ["a"]


def test_a_browser_shows_and_ends() -> None:
    gateway, peer = sent("a", "b", browser=True)
    first, second, end = peer.dispatches()
    assert [text_in(first), text_in(second)] == ["a", "b"]
    assert end.message is None
    peer.acknowledge(second, STANDARD, first)
    assert gateway.stats("q").depth == 2


def test_selectors_see_typed_properties() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"), selector="n > 6 AND colour = 'red' AND JMSType = 'order'")
    producer = gateway.connect_openwire()
    for number in (5, 7):
        properties = write_map({"n": Typed(words.INT, number), **strings(colour="red")})
        producer.publish(queue("q"), str(number), marshalled_properties=properties, type="order")
    assert peer.texts() == ["7"]


def test_a_bad_selector_is_refused() -> None:
    peer = OpenWireGateway().connect_openwire()
    info = ConsumerInfo(consumer_id=peer.consumer_id(), destination=queue("q"), selector="n >", prefetch_size=1)
    assert peer.refused(info).class_name == "javax.jms.InvalidSelectorException"


def test_topics_wildcards_and_no_local() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(topic("a.b"))
    peer.consume(topic("a.*"), 2)
    peer.consume(topic("a.b"), 3, no_local=True)
    peer.send(peer.message(topic("a.b"), "mine"))
    assert sorted(one.consumer_id.value for one in take_dispatches(peer) if one.consumer_id) == [1, 2]
    gateway.connect_openwire().publish(topic("a.b"), "other")
    assert sorted(one.consumer_id.value for one in take_dispatches(peer) if one.consumer_id) == [1, 2, 3]


def take_dispatches(peer: OpenWirePeer) -> list[MessageDispatch]:
    return [one for one in peer.take() if isinstance(one, MessageDispatch)]


def test_a_durable_subscription() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire("billing")
    peer.consume(topic("t"), subscription_name="sub")
    again = ConsumerInfo(
        consumer_id=peer.consumer_id(2), destination=topic("t"), subscription_name="sub", prefetch_size=1
    )
    assert peer.refused(again).class_name == "javax.jms.JMSException"
    remove = RemoveSubscriptionInfo(subscription_name="sub", client_id="billing")
    assert peer.refused(remove).class_name == "javax.jms.JMSException"
    peer.vanish()
    gateway.connect_openwire().publish(topic("t"), "late")
    peer = gateway.connect_openwire("billing")
    peer.consume(topic("t"), subscription_name="sub")
    (dispatch,) = peer.dispatches()
    peer.acknowledge(dispatch)
    peer.send(RemoveInfo(object_id=peer.consumer_id()))
    peer.ask(RemoveSubscriptionInfo(subscription_name="sub", client_id="billing"))
    exception = peer.refused(RemoveSubscriptionInfo(subscription_name="sub", client_id="billing"))
    assert exception.class_name == "javax.jms.InvalidDestinationException"


def test_a_new_durable_subscription_may_begin_with_earlier_messages() -> None:
    gateway = OpenWireGateway(is_restartable=True)
    gateway.connect_openwire().publish(topic("t"), "early")
    peer = gateway.connect_openwire("billing")
    peer.consume(topic("t"), subscription_name="plain")
    assert peer.take() == []
    peer.consume(topic("t"), 2, subscription_name="sub", retroactive=True)
    (dispatch,) = peer.dispatches()
    peer.acknowledge(dispatch)
    peer.vanish()
    peer = gateway.connect_openwire("billing")
    peer.consume(topic("t"), subscription_name="sub", retroactive=True)
    assert peer.take() == []


def test_ids_of_other_connections_are_refused() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    info = ConsumerInfo(consumer_id=ConsumerId("ID:other", 1, 1), destination=queue("q"), prefetch_size=1)
    assert "belongs to another connection" in peer.refused(info).message
    assert peer.refused(SessionInfo()).message == "SessionInfo has no sessionId"


def test_limits_are_named() -> None:
    gateway = OpenWireGateway(openwire=OpenWireSettings(consumers=1, producers=1, transactions=1))
    peer = gateway.openwire_consumer(queue("q"))
    info = ConsumerInfo(consumer_id=peer.consumer_id(2), destination=queue("q"), prefetch_size=1)
    assert peer.refused(info).message == "1 consumers are open on this connection, which is the limit"
    peer.send(peer.transact(BEGIN))
    assert "1 transactions are open" in peer.refused(peer.transact(BEGIN, 2)).message


def test_a_large_message_leaves_in_pieces() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    producer = gateway.connect_openwire()
    content = bytes(range(256)) * 20_000
    producer.ask(producer.message(queue("q"), "", BytesMessage, content=content, persistent=True))
    gateway.advance(100)
    (dispatch,) = peer.dispatches()
    assert message_in(dispatch).content == content
    assert peer.largest_write < len(content)


def test_a_restart_keeps_messages() -> None:
    gateway = OpenWireGateway(is_restartable=True)
    gateway.connect_openwire().publish(queue("q"), "kept")
    later = OpenWireGateway(earlier=gateway)
    assert later.openwire_consumer(queue("q")).texts() == ["kept"]


def test_removing_a_connection_aborts_its_transactions() -> None:
    gateway, peer = sent("a")
    (dispatch,) = peer.dispatches()
    peer.send(peer.transact(BEGIN))
    peer.acknowledge(dispatch, transaction_id=peer.transaction())
    peer.ask(RemoveInfo(object_id=ConnectionId(peer.connection_id)))
    assert gateway.openwire_consumer(queue("q")).texts() == ["a"]


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 5, 6])
def test_no_answer_of_a_browser_moves_a_message(kind: int) -> None:
    gateway, peer = sent("a", "b", browser=True)
    first, second, _ = peer.dispatches()
    peer.acknowledge(first, kind)
    peer.acknowledge(second, kind, first)
    gateway.advance(100)
    assert gateway.stats("q").depth == 2
    assert gateway.openwire_consumer(queue("q")).texts() == ["a", "b"]


SLOW = address(
    "q",
    slow_consumers__abort="slow",
    slow_consumers__abort_check_period_ms=1_000,
    slow_consumers__max_slow_duration_ms=2_000,
)


def test_a_slow_consumer_is_closed_and_its_connection_goes_on() -> None:
    gateway = OpenWireGateway(SLOW)
    peer = gateway.connect_openwire(manageable=True)
    peer.consume(queue("q"), prefetch=1)
    gateway.connect_openwire().publish(queue("q"), "a", "b")
    peer.take()
    gateway.advance(4_000)
    (control,) = [one for one in peer.take() if isinstance(one, ConsumerControl)]
    assert (control.close, control.consumer_id) == (True, peer.consumer_id())
    peer.send(RemoveInfo(object_id=peer.consumer_id(), last_delivered_sequence_id=-1))  # as the client then does
    assert gateway.stats("q").in_flight == 0
    peer.consume(queue("r"), 2)


def test_a_client_that_lets_nobody_close_its_consumers_loses_its_connection() -> None:
    gateway = OpenWireGateway(SLOW)
    peer = gateway.openwire_consumer(queue("q"), prefetch=1)
    gateway.connect_openwire().publish(queue("q"), "a", "b")
    peer.take()
    gateway.advance(4_000)
    assert "too slow" in str(peer.take())
    assert peer.session.is_ending


def test_what_a_client_has_asked_for_in_words() -> None:
    gateway = OpenWireGateway()
    values = {"ProviderName": Typed(words.STRING, "ActiveMQ"), "ProviderVersion": Typed(words.STRING, "5.18.7")}
    asked = {"MaxInactivityDuration": Typed(words.LONG, 5_000), **values}
    peer = gateway.negotiated(11, asked)
    peer.ask(ConnectionInfo(connection_id=ConnectionId(peer.connection_id), client_id="c", fault_tolerant=True))
    peer.consume(queue("q"), 1, 7, selector="a = 1", exclusive=True)
    for number in range(2, 30):
        peer.consume(topic("t"), number, 0)
    first, failover, one, another, *_, last = peer.session.asked_for()
    assert first == "ActiveMQ 5.18.7, OpenWire 11, silence of 5000 ms is allowed"
    assert failover.startswith("failover")
    assert one == "consumer 1:1 of queue://q: prefetch 7, exclusive, selector 'a = 1'"
    assert another == "consumer 1:2 of topic://t: prefetch 0: one message for each pull"
    assert last == "and 9 more consumers"
