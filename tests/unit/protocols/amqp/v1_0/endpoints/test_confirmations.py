"""What waits for the disk on an AMQP connection, what waits behind it, and what does not."""

from __future__ import annotations

from engine.ports.workers import SYNC_LANE
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Close, Detach, Disposition, End, Flow, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.layout import Heartbeat
from protocols.amqp.v1_0.wire.types.values import Symbol, UInt
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, queue_of, text


def unsynced(amqp: AmqpSettings | None = None) -> tuple[AmqpGateway, AmqpPeer]:
    """Return a gateway whose disk does not sync, and a peer with a producer of queue q."""
    gateway, peer = queue_of(amqp=amqp)
    gateway.sync()
    gateway.syncs = False
    return gateway, peer


def durable_source() -> Source:
    return Source("topic://t", UInt(2), Symbol("never"), capabilities=[Symbol("topic")])


def test_an_answer_with_nothing_to_wait_for_leaves_at_once() -> None:
    _, peer = unsynced()
    peer.send(End())
    peer.one(End)
    peer.begin()
    peer.send(Close())
    peer.one(Close)


def test_what_is_not_persistent_waits_for_nothing() -> None:
    _, peer = unsynced()
    number = peer.transfer(text("m"))
    assert peer.one(Disposition) == Disposition(True, number, None, True, Accepted())


def test_an_outcome_holds_nothing_else_up() -> None:
    gateway, peer = unsynced()
    peer.attach_receiver("q", credit=10)
    peer.transfer(text("m", durable=True))
    assert [type(frame) for frame in peer.take()] == [Transfer]
    gateway.sync()
    peer.one(Disposition)


def test_messages_of_a_durable_subscription_come_behind_its_attach() -> None:
    gateway, peer = unsynced()
    peer.attach_sender("topic://t", 5)
    with gateway.one_turn():
        peer.send(Attach("sub", 1, True, source=durable_source(), target=Target()))
        peer.credit(1, 10)
        peer.transfer(text("m"), 5)
    peer.one(Disposition)
    gateway.sync()
    assert [type(frame) for frame in peer.take()] == [Attach, Transfer]


def test_a_link_attached_anew_on_a_handle_is_answered_behind_the_detach() -> None:
    gateway, peer = unsynced()
    peer.send(Attach("sub", 1, True, source=durable_source(), target=Target()))
    gateway.sync()
    peer.take()
    peer.send(Detach(1, True))
    peer.send(Attach("other", 1, True, source=Source("q"), target=Target()))  # of a later turn
    peer.credit(1, 10)
    peer.transfer(text("m"))
    peer.one(Disposition)
    gateway.sync()
    assert [type(frame) for frame in peer.take()] == [Detach, Attach, Transfer]


def test_what_follows_an_answer_waits_for_no_more_than_the_answer_does() -> None:
    gateway, peer = unsynced()
    peer.send(Attach("sub", 1, True, source=durable_source(), target=Target()))
    gateway.connect("1.2").send("SEND", b"m", destination="/queue/other", persistent="true")
    peer.send(Attach("other", 2, False, source=Source(), target=Target("q"), initial_delivery_count=0))
    peer.send(Flow(0, 100, 0, 100, 2, echo=True))
    assert peer.take() == []
    gateway.workers.finish(SYNC_LANE)  # of what the first attach waits for
    gateway.settle()
    assert [type(frame) for frame in peer.take()] == [Attach, Attach, Flow, Flow]


def test_heartbeats_go_on_while_an_answer_waits() -> None:
    gateway = AmqpGateway()
    gateway.syncs = False
    peer = gateway.connect_amqp(idle_time_out=1_000)
    peer.begin()
    peer.send(Attach("sub", 1, True, source=durable_source(), target=Target()))
    assert peer.take() == []
    gateway.advance(1_000)
    frames = peer.take()
    assert frames
    assert all(isinstance(frame, Heartbeat) for frame in frames)


def test_a_close_that_cannot_be_confirmed_says_so() -> None:
    gateway, peer = unsynced(AmqpSettings(close_time_ms=1_000))
    peer.transfer(text("m", durable=True))
    peer.send(Close())
    assert peer.take() == []
    gateway.advance(1_500)
    kind, condition, description = peer.error()
    assert (kind, condition) == (Close, "amqp:resource-limit-exceeded")
    assert description == "the frames before close are not on the disk after 1000 ms"


def test_links_that_are_attached_already_go_on() -> None:
    gateway, peer = unsynced()
    peer.attach_receiver("q", 2, credit=10)
    peer.take()
    peer.send(Attach("sub", 1, True, source=durable_source(), target=Target()))
    peer.transfer(text("m"))
    assert [type(frame) for frame in peer.take()] == [Transfer, Disposition]
    gateway.sync()
    peer.one(Attach)


def test_a_session_whose_window_shuts_meanwhile_stays_shut() -> None:
    """Two reasons hold a consumer back; it takes both to be gone."""
    gateway, peer = unsynced()
    peer.attach_sender("topic://t", 5)
    peer.send(Attach("sub", 1, True, source=durable_source(), target=Target()))
    peer.credit(1, 10)
    peer.transfer(text("m"), 5)
    peer.take()
    peer.send(Flow(0, 0, 0, 100))  # no room
    gateway.sync()
    peer.one(Attach)
    peer.send(Flow(0, 1, 0, 100))
    peer.one(Transfer)
    peer.transfer(text("n"), 5)
    peer.one(Disposition)


def test_outcomes_that_are_owed_do_not_keep_an_answer_standing() -> None:
    """Once the answer has left, a link is attached at once although later outcomes are owed still."""
    gateway, peer = unsynced()
    peer.send(Attach("sub", 1, True, source=durable_source(), target=Target()))
    peer.transfer(text("m", durable=True))
    gateway.workers.finish(SYNC_LANE)  # of what was written before that transfer
    gateway.settle()
    peer.one(Attach)
    peer.send(Attach("other", 2, True, source=Source("q"), target=Target()))
    peer.one(Attach)
