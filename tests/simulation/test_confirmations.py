"""The law of confirmations: what a client has seen confirmed survives a power cut at that very moment.

For each way in which either protocol confirms anything, the sync of the disk is held back, the client asks, and the
power goes as soon as the confirmation has come: with everything that asked in one read, so that nothing is durable by
chance.  What each way promises is looked for after the restart, through what the gateway itself then says.

Two checks keep the law honest: without the sync the promise is not there (so the law looks at the right thing), and a
gateway that confirms what is only written breaks the law in every one of the ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Declared,
    Modified,
    Rejected,
    State,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Close, Detach, Disposition, End, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Declare, Discharge
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Symbol, UInt, ULong
from tests.support.histories.confirming_gateway import SYNCS_MOST, ConfirmingGateway
from tests.support.protocols.amqp_gateway import AmqpPeer, text
from tests.support.protocols.stomp_gateway import Peer

MESSAGE: Final = text("m", durable=True)
DELAYED: Final = MESSAGE[:7] + b"\x00\x53\x72" + encode({Symbol("x-opt-delivery-delay"): ULong(60_000)}) + MESSAGE[7:]


@dataclass(slots=True)
class Asked:
    """What a client waits for, and what that promises.

    confirmed: whether the confirmation has come.  kept: whether a gateway has what it promises.
    """

    confirmed: Callable[[], bool]
    kept: Callable[[ConfirmingGateway], bool]


Way = Callable[[ConfirmingGateway], Asked]


# -- AMQP


class Answers:
    """What has come to an AMQP peer since it asked."""

    def __init__(self, peer: AmqpPeer) -> None:
        self.peer = peer
        self.frames: list[Any] = []

    def look(self) -> list[Any]:
        self.frames += self.peer.take()
        return self.frames

    def has(self, kind: type) -> bool:
        return any(isinstance(frame, kind) for frame in self.look())

    def outcome(self, delivery_id: int) -> State | None:
        """Return the outcome of a delivery of the peer's, None as long as it has not come."""
        for frame in self.look():
            if isinstance(frame, Disposition) and frame.role:
                if frame.first <= delivery_id <= (frame.first if frame.last is None else frame.last):
                    return frame.state
        return None

    def is_accepted(self, delivery_id: int) -> bool:
        return isinstance(self.outcome(delivery_id), Accepted)

    def is_settled(self) -> bool:
        """Say whether the gateway has settled what the peer received (receiver settles second)."""
        return any(isinstance(one, Disposition) and not one.role and one.settled for one in self.look())


def accepted(peer: AmqpPeer, delivery_id: int) -> Callable[[], bool]:
    answers = Answers(peer)
    return lambda: answers.is_accepted(delivery_id)


def answered_by(peer: AmqpPeer, kind: type) -> Callable[[], bool]:
    answers = Answers(peer)
    return lambda: answers.has(kind)


def settled(peer: AmqpPeer) -> Callable[[], bool]:
    answers = Answers(peer)
    return answers.is_settled


def producer(gateway: ConfirmingGateway, address: str | None, **fields: Any) -> AmqpPeer:
    peer = gateway.amqp_sender(address, **fields)
    gateway.sync_all()
    return peer


def has_one(*names: str) -> Callable[[ConfirmingGateway], bool]:
    return lambda gateway: all(gateway.depth(name) == 1 for name in names)


def transfer(gateway: ConfirmingGateway) -> Asked:
    peer = producer(gateway, "queue://q")
    number = peer.transfer(MESSAGE)
    return Asked(accepted(peer, number), has_one("q"))


def transfer_to_several(gateway: ConfirmingGateway) -> Asked:
    peer = producer(gateway, "queue://a,queue://b")
    number = peer.transfer(MESSAGE)
    return Asked(accepted(peer, number), has_one("a", "b"))


def transfer_to_virtual_topic(gateway: ConfirmingGateway) -> Asked:
    consumer = gateway.amqp_session(container="consumer")
    consumer.attach_receiver("queue://Consumer.A.VirtualTopic.t")
    peer = producer(gateway, "topic://VirtualTopic.t")
    number = peer.transfer(MESSAGE)
    kept = has_one("Consumer.A.VirtualTopic.t")
    return Asked(accepted(peer, number), kept)


def transfer_later(gateway: ConfirmingGateway) -> Asked:
    peer = producer(gateway, "queue://q")
    number = peer.transfer(DELAYED)
    return Asked(accepted(peer, number), is_scheduled)


def transfer_later_to_several(gateway: ConfirmingGateway) -> Asked:
    peer = producer(gateway, "queue://a,queue://b")
    number = peer.transfer(DELAYED)
    return Asked(accepted(peer, number), is_scheduled)


def is_scheduled(gateway: ConfirmingGateway) -> bool:
    return len(gateway.schedule) > 0


def transfer_on_relay(gateway: ConfirmingGateway) -> Asked:
    peer = producer(gateway, None)
    properties = b"\x00\x53\x73" + encode([None, None, "queue://a,queue://b"])
    number = peer.transfer(MESSAGE[:7] + properties + MESSAGE[7:])
    return Asked(accepted(peer, number), has_one("a", "b"))


def transfer_in_frames(gateway: ConfirmingGateway) -> Asked:
    peer = producer(gateway, "queue://q")
    peer.send(Transfer(0, 0, b"t", 0, more=True), MESSAGE[:9])
    peer.send(Transfer(0), MESSAGE[9:])
    return Asked(accepted(peer, 0), has_one("q"))


def transfer_in_second_mode(gateway: ConfirmingGateway) -> Asked:
    peer = producer(gateway, "queue://q", rcv_settle_mode=1)
    number = peer.transfer(MESSAGE)
    return Asked(accepted(peer, number), has_one("q"))


def transfer_then(frame: End | Close | Detach, address: str, *names: str, is_settled: bool = False) -> Way:
    """Return the way that a transfer and ``frame`` in one read are confirmed by the answer to ``frame``."""

    def way(gateway: ConfirmingGateway) -> Asked:
        peer = producer(gateway, address)
        with gateway.one_turn():
            peer.transfer(MESSAGE, settled=is_settled)
            peer.send(frame)
        return Asked(answered_by(peer, type(frame)), has_one(*names))

    return way


def transfer_accepted_beside(frame: End | Detach | Close, address: str, *names: str) -> Way:
    """Return the way that the disposition of a transfer comes although ``frame`` came in the same read."""

    def way(gateway: ConfirmingGateway) -> Asked:
        peer = producer(gateway, address)
        with gateway.one_turn():
            number = peer.transfer(MESSAGE)
            peer.send(frame)
        return Asked(accepted(peer, number), has_one(*names))

    return way


def coordinated(gateway: ConfirmingGateway) -> tuple[AmqpPeer, bytes]:
    """Return a peer with a transaction."""
    peer = gateway.amqp_sender("queue://q")
    peer.attach_coordinator(9)
    peer.transfer(b"\x00\x53\x77" + encode_composite(Declare()), 9)
    state = peer.one(Disposition).state
    assert isinstance(state, Declared)
    gateway.sync_all()
    return peer, state.txn_id


def discharge(peer: AmqpPeer, name: bytes) -> int:
    return peer.transfer(b"\x00\x53\x77" + encode_composite(Discharge(name, False)), 9)


def commit(gateway: ConfirmingGateway) -> Asked:
    peer, name = coordinated(gateway)
    with gateway.one_turn():
        peer.transfer(MESSAGE, state=TransactionalState(name))
        number = discharge(peer, name)
    return Asked(accepted(peer, number), has_one("q"))


def commit_then(frame: End | Close | Detach, *, by_answer: bool) -> Way:
    """Return the way that a discharge and ``frame`` in one read are confirmed: by the disposition, or the answer."""

    def way(gateway: ConfirmingGateway) -> Asked:
        peer, name = coordinated(gateway)
        with gateway.one_turn():
            peer.transfer(MESSAGE, state=TransactionalState(name))
            number = discharge(peer, name)
            peer.send(frame)
        confirmed = answered_by(peer, type(frame)) if by_answer else accepted(peer, number)
        return Asked(confirmed, has_one("q"))

    return way


def consumer(gateway: ConfirmingGateway, **fields: Any) -> AmqpPeer:
    """Return a peer that has received the one message of queue q."""
    sender = gateway.amqp_session(container="sender")
    sender.attach_sender("queue://q")
    sender.transfer(MESSAGE)
    gateway.sync_all()
    sender.take()
    peer = gateway.amqp_session()
    peer.attach_receiver("queue://q", credit=10, **fields)
    gateway.sync_all()
    assert len(peer.messages()) == 1
    return peer


def is_empty(gateway: ConfirmingGateway) -> bool:
    return gateway.depth("q") == 0


def settled_second(state: State, kept: Callable[[ConfirmingGateway], bool]) -> Way:
    def way(gateway: ConfirmingGateway) -> Asked:
        peer = consumer(gateway, rcv_settle_mode=1)
        peer.dispose(0, state, settled=False)
        return Asked(settled(peer), kept)

    return way


def settled_second_then_end(gateway: ConfirmingGateway) -> Asked:
    peer = consumer(gateway, rcv_settle_mode=1)
    with gateway.one_turn():
        peer.dispose(0, Accepted(), settled=False)
        peer.send(End())
    return Asked(settled(peer), is_empty)


def outcome_in_transaction(gateway: ConfirmingGateway) -> Asked:
    peer = consumer(gateway)
    peer.attach_coordinator(9)
    peer.transfer(b"\x00\x53\x77" + encode_composite(Declare()), 9)
    state = peer.one(Disposition).state
    assert isinstance(state, Declared)
    gateway.sync_all()
    with gateway.one_turn():
        peer.dispose(0, TransactionalState(state.txn_id, Accepted()))
        number = discharge(peer, state.txn_id)
    return Asked(accepted(peer, number), is_empty)


def outcome_in_transaction_settled_second(outcome: State, kept: Callable[[ConfirmingGateway], bool]) -> Way:
    def way(gateway: ConfirmingGateway) -> Asked:
        peer = consumer(gateway, rcv_settle_mode=1)
        peer.attach_coordinator(9)
        peer.transfer(b"\x00\x53\x77" + encode_composite(Declare()), 9)
        state = peer.one(Disposition).state
        assert isinstance(state, Declared)
        gateway.sync_all()
        with gateway.one_turn():
            peer.dispose(0, TransactionalState(state.txn_id, outcome), settled=False)
            discharge(peer, state.txn_id)
        return Asked(settled(peer), kept)

    return way


def outcome_then(frame: End | Close) -> Way:
    """Return the way that the answer to ``frame`` stands for an outcome which the peer has settled itself."""

    def way(gateway: ConfirmingGateway) -> Asked:
        peer = consumer(gateway)
        with gateway.one_turn():
            peer.dispose(0, Accepted())
            peer.send(frame)
        return Asked(answered_by(peer, type(frame)), is_empty)

    return way


def outcome_some_turns_before(frame: End | Close) -> Way:
    """Return the same where the outcome came in an earlier turn, whose record may have been put off."""

    def way(gateway: ConfirmingGateway) -> Asked:
        peer = consumer(gateway)
        peer.dispose(0, Accepted())
        peer.send(frame)
        return Asked(answered_by(peer, type(frame)), is_empty)

    return way


def durable_source() -> Source:
    return Source("topic://t", UInt(2), Symbol("never"), capabilities=[Symbol("topic")])


def subscribe(peer: AmqpPeer) -> None:
    peer.send(Attach("sub", 1, True, source=durable_source(), target=Target()))


def attach_durable(gateway: ConfirmingGateway) -> Asked:
    peer = gateway.amqp_session()
    gateway.sync_all()
    subscribe(peer)
    return Asked(answered_by(peer, Attach), lambda after: after.has_subscription("me", "sub"))


def subscribed(gateway: ConfirmingGateway) -> AmqpPeer:
    peer = gateway.amqp_session()
    subscribe(peer)
    gateway.sync_all()
    peer.one(Attach)
    return peer


def is_unsubscribed(gateway: ConfirmingGateway) -> bool:
    return not gateway.has_subscription("me", "sub")


def detach_durable(gateway: ConfirmingGateway) -> Asked:
    peer = subscribed(gateway)
    peer.send(Detach(1, True))
    return Asked(answered_by(peer, Detach), is_unsubscribed)


def detach_durable_kept(gateway: ConfirmingGateway) -> Asked:
    """A detach that leaves the subscription stands for the outcomes on it."""
    peer = subscribed(gateway)
    peer.credit(1, 10)
    peer.attach_sender("topic://t", 5)
    peer.transfer(MESSAGE, 5)
    gateway.sync_all()
    peer.take()
    with gateway.one_turn():
        peer.dispose(0, Accepted())
        peer.send(Detach(1))

    def kept(after: ConfirmingGateway) -> bool:
        queues = after.subscriptions()["me", "sub", True].queues.values()
        return all(queue.depth == 0 for queue in queues)

    return Asked(answered_by(peer, Detach), kept)


def unsubscribe_by_name(gateway: ConfirmingGateway) -> Asked:
    """The way of Qpid JMS: attach without a source, then a closing detach."""
    peer = subscribed(gateway)
    peer.send(Detach(1))
    gateway.sync_all()
    peer.take()
    peer.send(Attach("sub", 1, True, target=Target()))
    peer.one(Attach)
    peer.send(Detach(1, True))
    return Asked(answered_by(peer, Detach), is_unsubscribed)


# -- STOMP


def receipts(peer: Peer) -> Callable[[], bool]:
    """Return what says whether receipt r has come."""
    seen: list[str] = []

    def look() -> bool:
        seen.extend(frame["receipt-id"] for frame in peer.take() if frame.command == "RECEIPT")
        return "r" in seen

    return look


def send(destination: str, *names: str, **headers: str) -> Way:
    def way(gateway: ConfirmingGateway) -> Asked:
        peer = gateway.connect()
        peer.send("SEND", b"m", destination=destination, persistent="true", receipt="r", **headers)
        return Asked(receipts(peer), has_one(*names) if names else is_scheduled)

    return way


def stomp_consumer(gateway: ConfirmingGateway) -> tuple[Peer, str]:
    """Return a peer that has received the one message of queue q, and what it answers it with."""
    sender = gateway.connect()
    sender.send("SEND", b"m", destination="/queue/q", persistent="true")
    gateway.sync_all()
    peer = gateway.connect()
    peer.subscribe("/queue/q")
    gateway.sync_all()
    (message,) = peer.messages()
    return peer, message["ack"]


def answered(command: str, kept: Callable[[ConfirmingGateway], bool]) -> Way:
    def way(gateway: ConfirmingGateway) -> Asked:
        peer, ack = stomp_consumer(gateway)
        peer.send(command, id=ack, receipt="r")
        return Asked(receipts(peer), kept)

    return way


def answered_then(command: str, **headers: str) -> Way:
    """Return the way that the receipt of ``command`` stands for an ACK before it that asked for none."""

    def way(gateway: ConfirmingGateway) -> Asked:
        peer, ack = stomp_consumer(gateway)
        peer.send("ACK", id=ack)
        peer.send(command, receipt="r", **headers)
        return Asked(receipts(peer), is_empty)

    return way


def stomp_commit(gateway: ConfirmingGateway) -> Asked:
    peer = gateway.connect()
    peer.send("BEGIN", transaction="t")
    for name in ("a", "b"):
        peer.send("SEND", b"m", destination=f"/queue/{name}", persistent="true", transaction="t")
    peer.send("COMMIT", transaction="t", receipt="r")
    return Asked(receipts(peer), has_one("a", "b"))


def stomp_commit_of_answer(gateway: ConfirmingGateway) -> Asked:
    peer, ack = stomp_consumer(gateway)
    peer.send("BEGIN", transaction="t")
    peer.send("ACK", id=ack, transaction="t")
    peer.send("COMMIT", transaction="t", receipt="r")
    return Asked(receipts(peer), is_empty)


NAMED: Final = {"activemq.subscriptionName": "sub"}


def stomp_subscribe(gateway: ConfirmingGateway) -> Asked:
    peer = gateway.connect(**{"client-id": "me"})
    gateway.sync_all()
    peer.subscribe("/topic/t", receipt="r", **NAMED)
    return Asked(receipts(peer), lambda after: after.has_subscription("me", "sub"))


def stomp_unsubscribe(gateway: ConfirmingGateway) -> Asked:
    peer = gateway.connect(**{"client-id": "me"})
    peer.subscribe("/topic/t", **NAMED)
    gateway.sync_all()
    peer.send("UNSUBSCRIBE", id="s", receipt="r", **NAMED)
    return Asked(receipts(peer), is_unsubscribed)


def stomp_disconnect(gateway: ConfirmingGateway) -> Asked:
    peer = gateway.connect()
    with gateway.one_turn():
        peer.send("SEND", b"m", destination="/queue/q", persistent="true")
        peer.send("DISCONNECT", receipt="r")
    return Asked(receipts(peer), has_one("q"))


WAYS: Final[dict[str, Way]] = {
    "amqp transfer": transfer,
    "amqp transfer to several": transfer_to_several,
    "amqp transfer to a virtual topic": transfer_to_virtual_topic,
    "amqp transfer delayed": transfer_later,
    "amqp transfer delayed to several": transfer_later_to_several,
    "amqp transfer to several on an anonymous relay": transfer_on_relay,
    "amqp transfer in frames": transfer_in_frames,
    "amqp transfer in second mode": transfer_in_second_mode,
    "amqp transfer, accepted before end": transfer_accepted_beside(End(), "queue://q", "q"),
    "amqp transfer to several, accepted before end": transfer_accepted_beside(End(), "queue://a,queue://b", "a", "b"),
    "amqp transfer, accepted beside detach": transfer_accepted_beside(Detach(0, True), "queue://q", "q"),
    "amqp transfer, accepted before close": transfer_accepted_beside(Close(), "queue://q", "q"),
    "amqp transfer, then end": transfer_then(End(), "queue://q", "q"),
    "amqp transfer settled, then end": transfer_then(End(), "queue://q", "q", is_settled=True),
    "amqp transfer, then close": transfer_then(Close(), "queue://q", "q"),
    "amqp transfer settled, then close": transfer_then(Close(), "queue://q", "q", is_settled=True),
    "amqp transfer to several, then close": transfer_then(Close(), "queue://a,queue://b", "a", "b"),
    "amqp discharge": commit,
    "amqp discharge, accepted before end": commit_then(End(), by_answer=False),
    "amqp discharge, then end": commit_then(End(), by_answer=True),
    "amqp discharge, accepted before close": commit_then(Close(), by_answer=False),
    "amqp discharge, then close": commit_then(Close(), by_answer=True),
    "amqp discharge, accepted beside detach": commit_then(Detach(9, True), by_answer=False),
    "amqp discharge of an outcome": outcome_in_transaction,
    "amqp discharge of accepted, settled second": outcome_in_transaction_settled_second(Accepted(), is_empty),
    "amqp discharge of rejected, settled second": outcome_in_transaction_settled_second(Rejected(), is_empty),
    "amqp discharge of modified, settled second": outcome_in_transaction_settled_second(
        Modified(True), lambda one: one.failed_attempts("q") != 0
    ),
    "amqp accepted, settled second": settled_second(Accepted(), is_empty),
    "amqp rejected, settled second": settled_second(Rejected(), is_empty),
    "amqp modified, settled second": settled_second(Modified(True), lambda one: one.failed_attempts("q") != 0),
    "amqp accepted, settled second before end": settled_second_then_end,
    "amqp accepted, then end": outcome_then(End()),
    "amqp accepted, then close": outcome_then(Close()),
    "amqp accepted, end some turns later": outcome_some_turns_before(End()),
    "amqp accepted, close some turns later": outcome_some_turns_before(Close()),
    "amqp attach durable": attach_durable,
    "amqp detach durable, closing": detach_durable,
    "amqp detach durable": detach_durable_kept,
    "amqp unsubscribe by name": unsubscribe_by_name,
    "stomp SEND": send("/queue/q", "q"),
    "stomp SEND to several": send("/queue/a,/queue/b", "a", "b"),
    "stomp SEND delayed": send("/queue/q", AMQ_SCHEDULED_DELAY="60000"),
    "stomp ACK": answered("ACK", is_empty),
    "stomp NACK": answered("NACK", lambda gateway: gateway.failed_attempts("q") != 0),
    "stomp COMMIT": stomp_commit,
    "stomp COMMIT of an ACK": stomp_commit_of_answer,
    "stomp SUBSCRIBE durable": stomp_subscribe,
    "stomp UNSUBSCRIBE durable": stomp_unsubscribe,
    "stomp UNSUBSCRIBE after an ACK": answered_then("UNSUBSCRIBE", id="s"),
    "stomp DISCONNECT": stomp_disconnect,
    "stomp DISCONNECT after an ACK": answered_then("DISCONNECT"),
}


def broken(way: Way, *, confirms_early: bool = False) -> str:
    """Return how a way breaks the law, "" if it does not."""
    gateway = ConfirmingGateway(confirms_early=confirms_early)
    asked = way(gateway)
    for _ in range(SYNCS_MOST):
        if asked.confirmed():
            return "" if asked.kept(gateway.after_power_cut()) else "confirmed, and lost at a power cut"
        if not gateway.sync_once():
            break
    return "" if asked.confirmed() else "never confirmed"


@pytest.mark.parametrize("name", WAYS)
def test_what_is_confirmed_survives_a_power_cut(name: str) -> None:
    assert broken(WAYS[name]) == ""


@pytest.mark.parametrize("name", WAYS)
def test_what_is_not_synced_does_not_survive(name: str) -> None:
    """Else the law would look at something that was there before, or comes by itself."""
    gateway = ConfirmingGateway()
    asked = WAYS[name](gateway)
    assert not asked.kept(gateway.after_power_cut())


@pytest.mark.parametrize("name", WAYS)
def test_a_confirmation_before_the_sync_is_found(name: str) -> None:
    assert broken(WAYS[name], confirms_early=True) == "confirmed, and lost at a power cut"


def test_a_session_that_cannot_go_on_confirms_nothing_early() -> None:
    """The end that an error brings comes behind what was confirmed before it, and nothing comes behind the end."""
    gateway = ConfirmingGateway()
    peer = producer(gateway, "queue://q")
    answers = Answers(peer)
    with gateway.one_turn():
        number = peer.transfer(MESSAGE)
        peer.send(Detach(99))
    assert answers.outcome(number) is None
    gateway.sync_once()
    assert [type(frame) for frame in answers.look()] == [Disposition, End]


def test_what_comes_behind_a_confirmation_waits_for_it() -> None:
    """A session that begins on the channel of one that has ended is answered behind that end."""
    gateway = ConfirmingGateway()
    peer = producer(gateway, "queue://q")
    answers = Answers(peer)
    with gateway.one_turn():
        peer.transfer(MESSAGE)
        peer.send(End())
        peer.send_octets(begin_and_attach())
    assert answers.look() == []
    gateway.sync_once()
    assert [frame.NAME.split(":")[1] for frame in answers.look()] == ["disposition", "end", "begin", "attach", "flow"]


def begin_and_attach() -> bytes:
    attach = Attach("again", 0, False, source=Source(), target=Target("q"), initial_delivery_count=0)
    return encode_frame(0, Begin(None, 0, 100, 100)) + encode_frame(0, attach)
