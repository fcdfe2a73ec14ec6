"""Dynamic nodes, durable and shared subscriptions, browsers, as JMS clients ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Declared, TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Close, Detach, Disposition, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.types.values import Symbol, UInt
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, capabilities, queue_of, said, text


def durable(topic: str, *more: str) -> Source:
    return Source(
        topic, UInt(2), Symbol("never"), distribution_mode=Symbol("copy"), capabilities=capabilities("topic", *more)
    )


def texts(peer: AmqpPeer) -> list[bytes]:
    peer.transfers()
    return [payload[-1:] for payload in peer.payloads]


def publisher(gateway: AmqpGateway) -> AmqpPeer:
    peer = gateway.amqp_session(container="publisher")
    peer.attach_sender("t", capabilities=capabilities("topic"))
    return peer


# -- dynamic nodes


def temporary_queue(peer: AmqpPeer, **fields: Any) -> str:
    """Make a temporary queue as Qpid JMS does; return its address."""
    target = Target(None, UInt(0), Symbol("link-detach"), dynamic=True, capabilities=capabilities("temporary-queue"))
    peer.send(Attach("creator", 20, False, source=Source(), target=target, initial_delivery_count=0, **fields))
    attach, _ = peer.take()
    assert isinstance(attach, Attach)
    assert isinstance(attach.target, Target)
    assert attach.target.dynamic
    assert attach.target.dynamic_node_properties is not None
    assert attach.target.dynamic_node_properties["lifetime-policy"].descriptor == 0x2B
    assert attach.target.address is not None
    return attach.target.address


def test_a_dynamic_target_is_a_temporary_queue() -> None:
    gateway = AmqpGateway()
    owner, other = gateway.amqp_session(), gateway.amqp_session(container="other")
    address = temporary_queue(owner)
    owner.attach_receiver(address, credit=5)
    other.attach_sender(address)
    other.publish("a")
    assert texts(owner) == [b"a"]
    other.send(Attach("thief", 5, True, source=Source(address), target=Target()))
    assert other.refusal()[0] == "amqp:resource-locked"


def test_a_temporary_queue_is_deleted_with_its_link() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    address = temporary_queue(peer)
    peer.attach_receiver(address, handle=1)
    peer.send(Detach(20, True))
    assert said(peer.one(Detach))[0] == "amqp:resource-locked"
    peer.send(Detach(1, True))
    peer.take()
    peer.vanish()
    other = gateway.amqp_session(container="other")
    other.attach_sender("q")
    other.send(
        Attach(
            "late",
            3,
            False,
            source=Source(),
            target=Target(address, capabilities=capabilities("temporary-queue")),
            initial_delivery_count=0,
        )
    )
    assert other.refusal()[0] == "amqp:not-found"


def test_a_dynamic_source_is_a_temporary_queue() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    attach = peer.attach_receiver(None, credit=5, source=Source(dynamic=True))
    assert attach.source is not None
    assert attach.source.address is not None
    peer.attach_sender(attach.source.address)
    peer.transfer(text("a"))
    assert sum(not isinstance(frame, Disposition) for frame in peer.take()) == 1
    peer.send(Detach(1, True))
    assert peer.one(Detach).error is None
    assert gateway.temporary_names() == []


# -- durable subscriptions


def test_a_durable_subscription_keeps_what_comes_meanwhile() -> None:
    gateway = AmqpGateway()
    sender = publisher(gateway)
    peer = gateway.amqp_session(container="me")
    peer.attach_receiver(None, credit=5, name="sub", source=durable("t"))
    sender.publish("a", durable=True)
    assert texts(peer) == [b"a"]
    peer.dispose(0, Accepted())
    peer.send(Detach(1))
    assert peer.one(Detach).closed is None
    sender.publish("b", durable=True)
    again = gateway.amqp_session(container="me")
    again.attach_receiver(None, credit=5, name="sub", source=durable("t"))
    assert texts(again) == [b"b"]


@pytest.mark.parametrize("link", ["sub", "other"])
def test_a_durable_subscription_may_have_its_name_behind_the_address(link: str) -> None:
    gateway = AmqpGateway()
    sender = publisher(gateway)
    source = Source("topic://t?consumer.subscriptionName=sub")
    peer = gateway.amqp_session(container="me")
    peer.attach_receiver(None, credit=5, name="sub", source=source)
    peer.send(Detach(1))
    peer.take()
    sender.publish("a", durable=True)
    again = gateway.amqp_session(container="me")
    again.attach_receiver(None, 1, credit=5, name=link, source=source)
    assert texts(again) == [b"a"]
    assert [(key[0], key[1]) for key in gateway.subscriptions()] == [("me", "sub")]
    again.send(Detach(1, True))
    assert again.one(Detach).error is None
    assert gateway.subscriptions() == {}


def test_a_queue_has_no_subscription_to_name() -> None:
    peer = AmqpGateway().amqp_session(container="me")
    peer.send(Attach("sub", 1, True, source=Source("q?consumer.subscriptionName=sub"), target=Target()))
    assert "durable and shared subscriptions are for topics" in str(peer.refusal())


def test_closing_the_link_ends_the_subscription() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session(container="me")
    peer.attach_receiver(None, name="sub", source=durable("t"))
    peer.send(Detach(1, True))
    assert peer.one(Detach).error is None
    assert gateway.subscriptions() == {}


def test_a_durable_subscription_has_one_consumer_of_a_connection() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session(container="me")
    peer.attach_receiver(None, 1, name="sub", source=durable("t"))
    peer.send(Attach("sub", 2, True, source=durable("t"), target=Target()))
    assert peer.refusal()[0] == "amqp:resource-locked"
    other = gateway.amqp_session(container="other")
    other.attach_receiver(None, name="sub", source=durable("t"))
    assert peer.take() == []


def test_another_connection_of_the_container_steals_it() -> None:
    gateway = AmqpGateway()
    first = gateway.amqp_session(container="me")
    first.attach_receiver(None, 1, name="sub", source=durable("t"), credit=10)
    sender = gateway.amqp_session(container="sender")
    sender.attach_sender("t", 0, capabilities=capabilities("topic"))
    sender.publish("a")
    assert len(first.transfers()) == 1
    second = gateway.amqp_session(container="me")
    second.attach_receiver(None, 1, name="sub", source=durable("t"), credit=10)
    detach = first.one(Detach)
    assert (said(detach)[0], detach.closed) == ("amqp:link:stolen", None)
    assert len(second.transfers()) == 1, "what the first had goes to the second"
    first.send(Detach(1))
    sender.publish("b")
    assert len(second.transfers()) == 1


def look_up(peer: AmqpPeer, name: str, *wished: str) -> None:
    peer.send(Attach(name, 7, True, target=Target(), desired_capabilities=capabilities(*wished) or None))


def test_unsubscribe_as_qpid_jms_does_it() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session(container="me")
    look_up(peer, "sub")
    assert peer.refusal()[0] == "amqp:not-found"
    peer.send(Detach(7, True))
    peer.attach_receiver(None, name="sub", source=durable("t"))
    look_up(peer, "sub")
    found = peer.one(Attach)
    assert found.source is not None
    assert (found.source.address, found.source.durable, found.source.expiry_policy) == ("t", 2, "never")
    peer.send(Detach(7, True))
    assert said(peer.one(Detach))[0] == "amqp:resource-locked"
    peer.send(Detach(1))
    peer.take()
    look_up(peer, "sub")
    peer.take()
    peer.send(Detach(7, True))
    assert peer.one(Detach).error is None
    assert gateway.subscriptions() == {}


def test_shared_subscriptions_by_name() -> None:
    gateway = AmqpGateway()
    sender = publisher(gateway)
    peers = [gateway.amqp_session(container=f"c{number}") for number in range(2)]
    for number, peer in enumerate(peers):
        source = Source("t", capabilities=capabilities("topic", "shared", "global"))
        peer.attach_receiver(None, credit=5, name=f"sub|global-volatile{number}", source=source)
    sender.publish(*"abcd")
    assert sorted(texts(peers[0]) + texts(peers[1])) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("is_global", [True, False])
def test_shared_durable_subscriptions_belong_to_an_id_or_to_nobody(is_global: bool) -> None:
    gateway = AmqpGateway()
    sender = publisher(gateway)
    wishes = ("shared", "global") if is_global else ("shared",)
    for container in ("a", "b"):
        peer = gateway.amqp_session(container=container)
        peer.attach_receiver(None, name="sub|global" if is_global else "sub", source=durable("t", *wishes))
        peer.send(Close())
    assert len(gateway.subscriptions()) == (1 if is_global else 2)
    sender.publish("x", durable=True)
    peer = gateway.amqp_session(container="a")
    look_up(peer, "sub|global" if is_global else "sub", *(wishes if is_global else ()))
    assert peer.one(Attach).source is not None


# -- browsers


def test_a_browser_removes_nothing_and_ends_by_drain() -> None:
    gateway, peer = queue_of("a", "b")
    peer.attach_receiver(None, source=Source("q", distribution_mode=Symbol("copy")), snd_settle_mode=1)
    peer.credit(1, 10, drain=True)
    frames = peer.take()
    assert [type(frame).__name__ for frame in frames] == ["Transfer", "Transfer", "Flow"]
    assert gateway.stats("q").depth == 2
    peer.send(Detach(1, True))
    peer.take()
    peer.attach_receiver("q", handle=2, credit=5)
    assert texts(peer) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("address", "wished", "kind", "names"),
    [
        ("a", (), "queue", ["a"]),
        ("topic://a", (), "topic", ["a"]),
        ("/topic/a", (), "topic", ["a"]),
        ("topic://a", ("queue",), "queue", ["a"]),
        ("/queues/a%2Fb%20c", (), "queue", ["a/b c"]),
        ("topic://a,b", (), "topic", ["a", "b"]),
        ("a,b", ("topic",), "topic", ["a", "b"]),
    ],
)
def test_addresses_of_producers(address: str, wished: tuple[str, ...], kind: str, names: list[str]) -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_sender(address, capabilities=capabilities(*wished) or None)
    peer.publish("x")
    destinations = gateway.broker.destinations
    made = destinations.queues if kind == "queue" else destinations.topics
    assert [name for name in names if made[name].enqueued_count == 1] == names


def test_a_composite_reaches_queues_and_topics_and_is_consumed_from_both() -> None:
    peer = AmqpGateway().amqp_session()
    peer.attach_receiver("queue://a,topic://b", 1, credit=10)
    peer.attach_sender("queue://a,topic://b", 0)
    peer.transfer(text("x"))
    assert len([frame for frame in peer.take() if isinstance(frame, Transfer)]) == 2


def test_a_composite_is_sent_to_whole_in_a_transaction() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_sender("a,b", 0)
    peer.attach_coordinator(9)
    peer.transfer(b"\x00\x53\x77\x00\x53\x31\x45", 9)
    declared = peer.one(Disposition).state
    assert isinstance(declared, Declared)
    peer.transfer(text("x"), 0, state=TransactionalState(declared.txn_id))
    peer.take()
    assert gateway.stats("a").depth == gateway.stats("b").depth == 0
    discharge = b"\x00\x53\x77\x00\x53\x32\xc0\x0c\x02\xa0\x08" + declared.txn_id + b"\x42"
    peer.transfer(discharge, 9)
    assert gateway.stats("a").depth == gateway.stats("b").depth == 1


@pytest.mark.parametrize("address", ["$cbs", "$management", "a,$cbs"])
def test_nodes_of_other_services_are_not_made(address: str) -> None:
    peer = AmqpGateway().amqp_session()
    peer.send(Attach("s", 0, False, source=Source(), target=Target(address), initial_delivery_count=0))
    assert peer.refusal()[0] == "amqp:not-found"
