"""Advisories of producers: an AMQP sender's link is one, from its attach to its end."""

from __future__ import annotations

import pytest

from protocols.amqp.v1_0.wire.composites.performatives import Detach, End
from tests.support.protocols.amqp_gateway import AmqpGateway, queue_of
from tests.support.protocols.stomp_gateway import Peer


def _watching(gateway: AmqpGateway, topic: str) -> Peer:
    watcher = gateway.connect()
    watcher.send("SUBSCRIBE", id="1", destination=f"/topic/ActiveMQ.Advisory.Producer.{topic}")
    return watcher


def _told(watcher: Peer) -> list[tuple[str, str]]:
    """Return (the class in the body, producerCount) of all that came."""
    return [(frame.body.decode().split('"')[1], frame["producerCount"]) for frame in watcher.take()]


def test_senders_that_attach_and_detach() -> None:
    gateway = AmqpGateway()
    watcher = _watching(gateway, "Queue.q")
    first, second = gateway.amqp_session(container="a"), gateway.amqp_session(container="b")
    first.attach_sender("q")
    second.attach_sender("queue://q", handle=3)
    assert _told(watcher) == [("ProducerInfo", "1"), ("ProducerInfo", "2")]
    first.send(Detach(0, True))
    assert _told(watcher) == [("RemoveInfo", "1")]
    second.send(Detach(3, False))  # detached is gone, too: nothing can be sent on it
    assert _told(watcher) == [("RemoveInfo", "0")]


@pytest.mark.parametrize("way", ["the session ends", "the connection is lost"])
def test_senders_that_go_with_what_they_were_on(way: str) -> None:
    gateway = AmqpGateway()
    watcher = _watching(gateway, "Topic.t")
    peer = gateway.amqp_sender("topic://t")
    assert _told(watcher) == [("ProducerInfo", "1")]
    if way == "the session ends":
        peer.send(End())
    else:
        peer.vanish()
    assert _told(watcher) == [("RemoveInfo", "0")]
    assert gateway.announced_producers() == []


def test_each_part_of_a_composite_destination_has_the_producer() -> None:
    gateway = AmqpGateway()
    watcher = _watching(gateway, "*.*")
    gateway.amqp_sender("queue://a,topic://b")
    frames = watcher.take()
    assert [frame["destination"].split("Producer.")[1] for frame in frames] == ["Queue.a", "Topic.b"]


def test_a_sender_without_a_destination_and_one_to_advisories_are_not_told_of() -> None:
    gateway = AmqpGateway()
    watcher = _watching(gateway, ">")
    peer = gateway.amqp_sender(None)
    peer.attach_sender("topic://ActiveMQ.Advisory.Connection", handle=1)
    assert watcher.take() == []


def test_a_producer_that_was_there_before_anybody_listened_counts() -> None:
    gateway, peer = queue_of()
    watcher = _watching(gateway, "Queue.q")
    peer.attach_sender("q", handle=1)
    assert _told(watcher) == [("ProducerInfo", "2")]
