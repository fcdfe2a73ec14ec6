"""Sessions: windows, handles, and what ends a session."""

from __future__ import annotations

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition, End, Flow, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from tests.support.protocols.amqp_gateway import AmqpGateway, queue_of, text


def test_echo_is_answered() -> None:
    _, peer = queue_of("a", "b")
    peer.attach_receiver("q")
    peer.credit(1, 0, echo=True)
    flow = peer.one(Flow)
    assert (flow.handle, flow.available, flow.echo) == (1, 2, False)
    peer.send(Flow(0, 100, 0, 100, echo=True))
    assert peer.one(Flow).handle is None


def test_the_incoming_window_is_opened_at_half() -> None:
    _, peer = queue_of(amqp=AmqpSettings(incoming_window=4, link_credit=100))
    peer.transfer(text("a"))
    assert [type(frame) for frame in peer.take()] == [Disposition]
    peer.transfer(text("b"))
    flow = next(frame for frame in peer.take() if isinstance(frame, Flow))
    assert (flow.next_incoming_id, flow.incoming_window, flow.handle) == (2, 4, None)


def test_one_frame_too_many_in_a_read_does_not_stop_the_rest() -> None:
    peer = AmqpGateway().amqp_session()
    peer.begin(1)
    wire = encode_frame(0, Transfer(9, 0, b"t", 0)) + encode_frame(1, Flow(0, 10, 0, 10, echo=True))
    peer.send_octets(wire)
    assert [type(frame) for frame in peer.take()] == [End, Flow]


def test_a_detached_link_takes_along_what_it_had_sent_and_nothing_else() -> None:
    gateway, peer = queue_of("1", "2", "3")
    peer.attach_sender("r", 4)
    peer.transfer(text("4"), 4)
    peer.take()
    peer.attach_receiver("q", 1)
    peer.attach_receiver("r", 2)
    peer.credit(1, 3)
    peer.credit(2, 3)
    assert len(peer.transfers()) == 4
    assert len(peer.connection.channels.mapped[0].unsettled) == 4
    peer.send(Detach(1, True))
    assert len(peer.connection.channels.mapped[0].unsettled) == 1
    peer.one(Detach)
    peer.dispose(0, Accepted(), 3)
    assert gateway.stats("q").depth == 3, "what went back is not the peer's to accept any more"
    assert gateway.stats("r").depth == 0


def test_a_delivery_that_comes_again_has_one_number() -> None:
    gateway, peer = queue_of("1")
    peer.attach_receiver("q", 1, credit=1)
    (first,) = peer.transfers()
    peer.attach_receiver("q", 2, credit=1)
    peer.take()
    peer.send(Detach(1, True))
    again = next(frame for frame in peer.take() if isinstance(frame, Transfer))
    assert again.delivery_id != first.delivery_id
    assert first.delivery_id is not None
    assert again.delivery_id is not None
    peer.dispose(first.delivery_id, Accepted())
    assert gateway.stats("q").depth == 1
    peer.dispose(again.delivery_id, Accepted())
    assert gateway.stats("q").depth == 0


def test_a_session_with_many_links_ends_at_once_and_its_consumers_in_turn() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_session()
    link_count = 900
    with gateway.one_turn():
        for handle in range(link_count):
            peer.send(Attach(f"r{handle}", handle, True, source=Source("q"), target=Target()))
            peer.send(Flow(0, 1_000_000, 0, 1_000, handle, 0, 10))
    peer.take()
    with gateway.one_turn():
        peer.send(End())
    peer.one(End)
    assert peer.connection.consumers, "one turn does not close so many"
    other = gateway.amqp_sender("q")
    other.publish("x")
    assert peer.take() == [], "nothing comes for a session that has ended"
    gateway.advance(1)
    assert peer.connection.consumers == {}
    peer.begin()
    peer.attach_receiver("q", credit=1)
    assert len(peer.transfers()) == 1
