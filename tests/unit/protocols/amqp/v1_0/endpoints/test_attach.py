"""Attach and detach: what a link is answered, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, End
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, UInt, ULong
from tests.support.protocols.amqp_gateway import AmqpGateway, capabilities


def test_a_link_is_answered_as_it_was_asked_for() -> None:
    peer = AmqpGateway().amqp_session()
    source = Source("queue://q", UInt(0), Symbol("link-detach"), capabilities=capabilities("queue"))
    attach = peer.attach_receiver(None, handle=7, name="mine", source=source, snd_settle_mode=0, rcv_settle_mode=0)
    assert (attach.name, attach.role, attach.snd_settle_mode, attach.rcv_settle_mode) == ("mine", False, 0, 0)
    assert attach.source == replace(source, distribution_mode="move")
    peer.send(Detach(7, True))
    assert peer.one(Detach) == Detach(attach.handle, True)


def test_only_filters_that_are_done_are_answered() -> None:
    peer = AmqpGateway().amqp_session()
    selector = Described(ULong(0x468C00000004), "a = 1")
    source = Source("q", filter={Symbol("one"): selector, Symbol("two"): Described(Symbol("x:y"), "z")})
    attach = peer.attach_receiver(None, source=source)
    assert attach.source is not None
    assert attach.source.filter == {"one": selector}


def test_options_of_an_address_without_an_effect_are_remarks_for_the_operator() -> None:
    gateway = AmqpGateway()
    gateway.amqp_session().attach_receiver("q?consumer.dispatchAsync=true&consumer.prefetchSize=5")
    view = gateway.why.consumer(1)
    assert view is not None
    assert view.remarks == (
        "consumer.dispatchAsync has no effect: always the case here",
        "consumer.prefetchSize has no effect: the link's credit is the window",
    )


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        (Source("no*such,thing"), "amqp:not-found"),
        (Source(), "amqp:invalid-field"),
        (Source("q", filter={Symbol("f"): Described(ULong(0x468C00000004), "a ==== 1")}), "amqp:invalid-field"),
        (Source("q", filter={Symbol("f"): Described(ULong(0x468C00000004), Symbol("a"))}), "amqp:invalid-field"),
        (Source("q", filter={Symbol("f"): "a = 1"}), "amqp:invalid-field"),
        (Source("q?consumer.nothing=1"), "amqp:invalid-field"),
        (Source("x" * 2_000), "amqp:not-found"),
    ],
)
def test_refused_consumers(source: Source, condition: str) -> None:
    peer = AmqpGateway().amqp_session()
    peer.send(Attach("r", 1, True, source=source, target=Target()))
    assert peer.refusal()[0] == condition
    peer.send(Detach(1, True))
    assert peer.take() == []
    peer.attach_receiver("q")


def test_refused_producers() -> None:
    peer = AmqpGateway().amqp_session()
    peer.send(Attach("s", 0, False, source=Source(), initial_delivery_count=0))
    assert peer.refusal()[0] == "amqp:invalid-field"
    peer.send(Attach("s", 1, False, source=Source(), target=Target("a*"), initial_delivery_count=0))
    assert peer.refusal()[0] == "amqp:not-found"


def test_links_of_a_connection_are_counted() -> None:
    peer = AmqpGateway(amqp=AmqpSettings(links=2)).amqp_session()
    peer.attach_receiver("q", 0)
    peer.attach_receiver("q", 1)
    for handle in (2, 3):
        peer.send(Attach(f"link {handle}", handle, True, source=Source("q"), target=Target()))
        condition, text = peer.refusal()
        assert condition == "amqp:resource-limit-exceeded"
        assert "the limit is 2" in text
    peer.send(Attach("link 4", 4, True, source=Source("q"), target=Target()))
    assert peer.error()[:2] == (End, "amqp:resource-limit-exceeded")
