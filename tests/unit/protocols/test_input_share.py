"""The share of a turn for the frames of one connection: its bounds, what waits, and how an end waits with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from engine.consumers.turn_steps import TURN_STEPS
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Close, Detach, End, Open, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.input_share import INPUT_STEPS, INPUT_STEPS_LEAST
from protocols.session.states import CLOSED, OPEN
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import COMMANDS
from protocols.stomp.codec.versions import VERSION_1_2
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession
from tests.support.fakes import FakeLink
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text
from tests.support.protocols.stomp_gateway import Peer, StompGateway

MANY = 1_000  # pairs of frames: several shares


def frame(command: str, body: bytes = b"", /, **headers: str) -> bytes:
    return encode(COMMANDS[command.encode()], list(headers.items()), body, VERSION_1_2)


def pairs(count: int = MANY) -> bytes:
    """Return BEGIN and ABORT so many times, with receipts of ascending numbers."""
    return b"".join(
        frame("BEGIN", transaction="t", receipt=f"{2 * number}")
        + frame("ABORT", transaction="t", receipt=f"{2 * number + 1}")
        for number in range(count)
    )


TWO_SENDS = frame("SEND", b"1", destination="/queue/q") + frame("SEND", b"2", destination="/queue/q")
SESSIONS = (encode_frame(1, Begin(None, 0, 100, 100)) + encode_frame(1, End())) * MANY


def one_turn(gateway: StompGateway) -> None:
    """End a single turn."""
    offset = gateway.broker.end_turn()
    confirmed_offset = gateway.store.confirmed_offset()
    for peer in gateway.peers:
        peer.flush(offset, confirmed_offset)
    gateway.broker.sync()
    gateway.broker.begin_turn()


def arrive(gateway: StompGateway, peer: Peer | AmqpPeer, octets: bytes) -> None:
    """Let octets come within the present turn."""
    peer.unread.append(octets)
    peer._read()


# -- the share


def test_a_lone_connection_may_take_its_share_in_a_turn() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    share = peer.session.share
    assert not share.charge(INPUT_STEPS - 1)
    assert peer.link.is_reading and not gateway.broker.has_more_to_do()
    assert share.charge(1)
    assert not peer.link.is_reading and gateway.broker.has_more_to_do()
    gateway.settle()
    assert peer.link.is_reading
    assert not share.charge(INPUT_STEPS - 1), "a new turn, a new share"


@pytest.mark.parametrize("why", ["others wait", "the turn has no steps left"])
def test_each_connection_has_the_least(why: str) -> None:
    gateway = StompGateway()
    greedy, peer = gateway.connect(), gateway.connect()
    if why == "others wait":
        greedy.session.share.charge(INPUT_STEPS)
    else:
        gateway.leave_steps(0)
    share = peer.session.share
    assert not share.charge(INPUT_STEPS_LEAST - 1)
    assert share.charge(1)


def test_what_waits_leaves_steps_to_other_work() -> None:
    gateway = StompGateway()
    peers = [gateway.connect() for _ in range(20)]
    for peer in peers:
        arrive(gateway, peer, pairs())
    gateway.broker.end_turn()
    gateway.count_steps_anew()
    gateway.broker.end_turn()
    assert 0 < gateway.most_steps() <= TURN_STEPS // 2 + INPUT_STEPS_LEAST


def test_those_that_wait_have_their_shares_in_turn() -> None:
    gateway = StompGateway()
    peers = [gateway.connect() for _ in range(6)]
    for peer in peers:
        arrive(gateway, peer, pairs())
    one_turn(gateway)
    done = [len(peer.take()) for peer in peers]
    turns = 0
    while not all(done):
        one_turn(gateway)
        turns += 1
        done = [before + len(peer.take()) for before, peer in zip(done, peers, strict=True)]
    for _ in range(6):
        one_turn(gateway)
    more = [len(peer.take()) for peer in peers]
    assert all(more), f"each goes on in six turns: {more}"
    assert max(more) < 3 * min(more), more


def test_who_asks_for_little_waits_for_none_of_them() -> None:
    gateway = StompGateway()
    honest = gateway.connect()
    floods = [gateway.connect() for _ in range(20)]
    for peer in floods:
        arrive(gateway, peer, pairs())
    arrive(gateway, honest, frame("SEND", destination="/queue/q", receipt="1"))
    one_turn(gateway)
    assert honest.receipts() == ["1"]
    assert all(not peer.link.is_reading for peer in floods)


# -- what waits


def test_frames_that_wait_are_answered_in_their_order() -> None:
    peer = StompGateway().connect()
    peer.send_octets(pairs() + frame("DISCONNECT", receipt="last"))
    assert peer.receipts() == [*(f"{number}" for number in range(2 * MANY)), "last"]
    assert peer.is_closed


def test_while_frames_wait_the_socket_is_not_read_and_they_are_counted() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    octets = pairs()
    arrive(gateway, peer, octets)
    one_turn(gateway)
    assert not peer.link.is_reading
    assert 0 < peer.session.held_bytes < len(octets)
    arrive(gateway, peer, frame("SEND", b"x", destination="/queue/q", receipt="after"))
    assert peer.unread, "it is not read"
    gateway.settle()
    assert peer.receipts()[-1] == "after"
    assert (peer.link.is_reading, peer.session.held_bytes, peer.session.share.is_waiting) == (True, 0, False)


def test_a_peer_whose_frames_wait_is_not_silent() -> None:
    gateway = StompGateway()
    peer = gateway.connect(**{"heart-beat": "1000,0"})
    arrive(gateway, peer, pairs())
    one_turn(gateway)
    gateway.clock.now_ms += 60_000
    peer.tick(gateway.clock.now_ms)
    assert peer.session.state == OPEN
    gateway.settle()
    gateway.advance(1_500)
    assert peer.session.state == OPEN, "its time begins when it is read again"
    gateway.advance(2_000)
    assert b"no heart-beat" in peer.take()[-1].body and peer.is_closed


def test_a_frame_that_is_refused_while_others_wait_ends_the_connection() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    peer.send_octets(pairs() + frame("UNSUBSCRIBE", id="none") + pairs())
    frames = peer.take()
    assert [one.command for one in frames] == ["RECEIPT"] * 2 * MANY + ["ERROR"]
    assert peer.is_closed and not gateway.broker.has_more_to_do()


def test_frames_behind_a_login_wait_for_it_first() -> None:
    gateway = StompGateway(settings=SessionSettings(needs_login=True))
    peer = gateway.open()
    peer.send_octets(frame("CONNECT", b"", **{"accept-version": "1.2", "login": "a", "passcode": "b"}) + pairs())
    assert not peer.link.is_reading and peer.take() == []
    peer.answer_login(is_allowed=True)
    assert len(peer.take()) == 1 + 2 * MANY
    assert peer.link.is_reading


def test_a_gate_holds_the_socket_after_all_frames_that_wait() -> None:
    gateway = AmqpGateway(memory_limit_bytes=20_000, amqp=AmqpSettings(block_park_bytes=1_000))
    peer = gateway.amqp_sender("q")
    share = peer.connection.share
    with gateway.one_turn():
        for _ in range(300):
            peer.transfer(text("x" * 100))
    assert share.is_stopped and share.is_paused and not peer.link.is_reading
    share.charge(INPUT_STEPS)
    gateway.settle()
    assert share.is_stopped and share.is_paused and not peer.link.is_reading, "the gate is still shut"
    gateway.connect().subscribe("/queue/q", ack="auto")
    assert not share.is_paused and peer.link.is_reading


# -- ends


def test_the_end_of_the_input_waits_for_the_frames_before_it() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    arrive(gateway, peer, pairs() + frame("SEND", b"x", destination="/queue/q", receipt="last"))
    peer.session.input_ended()
    assert peer.session.state == OPEN
    gateway.settle()
    assert peer.receipts()[-1] == "last" and peer.is_closed


def test_a_lost_connection_leaves_after_its_frames() -> None:
    gateway = StompGateway()
    peer = gateway.subscriber("/queue/mine")
    arrive(gateway, peer, pairs() + frame("SEND", b"x", destination="/queue/q"))
    peer.vanish()
    assert peer.session.state == CLOSED
    assert [(one.name, one.depth) for one in gateway.broker.inspect().destinations if one.depth] == [("q", 1)]
    assert not gateway.broker.inspect().connections


def lose(peer: Peer | AmqpPeer) -> None:
    """Cut the connection in the present turn."""
    peer.is_closed = True
    peer._connection.share.lose()


@pytest.mark.parametrize("ack", ["auto", "client"])
def test_while_a_lost_connection_has_frames_left_its_consumers_get_nothing(ack: str) -> None:
    gateway = StompGateway()
    peer, producer, other = gateway.connect(), gateway.connect(), gateway.connect()
    peer.subscribe("/queue/q", ack)
    arrive(gateway, peer, pairs() + frame("SUBSCRIBE", id="late", destination="/queue/q", ack=ack) + pairs())
    one_turn(gateway)
    lose(peer)
    arrive(gateway, producer, TWO_SENDS)
    gateway.settle()
    assert peer.session.state == CLOSED
    other.subscribe("/queue/q")
    assert [(one.body, one.headers.get("redelivered")) for one in other.messages()] == [(b"1", None), (b"2", None)]


def test_while_a_lost_amqp_connection_has_frames_left_its_links_get_nothing() -> None:
    gateway = AmqpGateway()
    peer, producer, other = gateway.amqp_session(), gateway.connect(), gateway.connect()
    peer.attach_receiver("q", credit=100)
    arrive(gateway, peer, SESSIONS)
    one_turn(gateway)
    lose(peer)
    arrive(gateway, producer, TWO_SENDS)
    gateway.settle()
    other.subscribe("/queue/q")
    assert [(one.body, one.headers.get("redelivered")) for one in other.messages()] == [(b"1", None), (b"2", None)]


@pytest.mark.parametrize("protocol", ["STOMP", "AMQP"])
def test_frames_of_lost_connections_count_in_the_memory_of_connections(protocol: str) -> None:
    gateway = AmqpGateway(connection_memory_bytes=200_000)
    left: list[int] = []
    for _ in range(20):
        peer = gateway.connect() if protocol == "STOMP" else gateway.amqp_session()
        arrive(gateway, peer, pairs() if protocol == "STOMP" else SESSIONS)
        lose(peer)
        one_turn(gateway)
        left.append(gateway.held_by_connections())
    assert left[0] > 0 and max(left) <= 200_000 < 20 * left[0]
    gateway.settle()
    assert gateway.held_by_connections() == 0 and not gateway.broker.inspect().connections


def test_a_lost_connection_that_a_frame_ends_is_counted_no_more() -> None:
    """The frame that ends it may be the one with which its share is used up: of so many positions one is that."""
    gateway = AmqpGateway()
    again = encode_frame(0, Open("again"))
    for count in range(80, 120):
        peer = gateway.amqp_session()
        arrive(gateway, peer, SESSIONS[: len(SESSIONS) // MANY * count] + again + SESSIONS)
        lose(peer)
        gateway.settle()
        assert gateway.held_by_connections() == 0 and not gateway.broker.inspect().connections


@pytest.mark.parametrize("version", ["1.0", "1.2"])
def test_answers_to_a_lost_connection_do_not_gather(version: str) -> None:
    gateway = StompGateway()
    peer = gateway.connect(version)
    arrive(gateway, peer, pairs() if version == "1.2" else frame("ACK", **{"message-id": "none"}) * MANY)
    lose(peer)
    receipts = peer.session.receipts
    while gateway.broker.has_more_to_do():
        one_turn(gateway)
        assert len(receipts.parts) + receipts.earlier.count(b"ERROR\n") < MANY // 2
    assert peer.session.state == CLOSED


def test_a_connection_that_ends_meanwhile_takes_no_more() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    arrive(gateway, peer, pairs() + frame("SEND", b"x", destination="/queue/q"))
    one_turn(gateway)
    peer.session.shut_down()
    gateway.settle()
    assert peer.take()[-1].command == "ERROR" and peer.is_closed
    assert not [one for one in gateway.broker.inspect().destinations if one.depth]


def test_amqp_frames_that_wait_are_answered_in_their_order() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_sender("q")
    octets = b""
    for number in range(200):
        attach = Attach(f"r{number}", 1, True, source=Source("q"), target=Target())
        octets += encode_frame(0, attach) + encode_frame(0, Detach(1, True))
        octets += encode_frame(1, Begin(None, 0, 100, 100)) + encode_frame(1, End())
        octets += encode_frame(0, Transfer(0, number, b"%d" % number, 0), text(f"{number}", durable=True))
    arrive(gateway, peer, octets + encode_frame(0, Close()))
    one_turn(gateway)
    assert not peer.link.is_reading and peer.connection.held_bytes > 0
    gateway.settle()
    names = [one.NAME for one in peer.take()]
    controls = [name for name in names if "disposition" not in name and "flow" not in name]
    kinds = [one.NAME for one in (Attach, Detach, Begin, End)]
    assert controls == kinds * 200 + [Close.NAME]
    assert gateway.stats("q").depth == 200


# -- defects


@dataclass(slots=True)
class BrokenLink(FakeLink):
    """Raises when the session warns; its gateway then ends only the connection."""

    faults: list[Exception] = field(default_factory=list)

    def warn(self, text: str) -> None:
        raise KeyError("ours")

    def take_fault(self, error: Exception) -> bool:
        self.faults.append(error)
        return True


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_defect_while_frames_wait_ends_only_the_connection(is_lost: bool) -> None:
    gateway = StompGateway()
    link = BrokenLink()
    session = StompSession(gateway.broker, link, gateway.settings, 0)
    connect = frame("CONNECT", b"", **{"accept-version": "1.2"})
    session.receive_data(connect + pairs() + frame("UNSUBSCRIBE", id="none") + pairs(), 0)
    if is_lost:
        session.share.lose()
    gateway.settle()
    assert [str(error) for error in link.faults] == ["'ours'"]
    assert (session.state == CLOSED) == is_lost, "a gateway that still has the socket ends it itself"


def test_a_lost_connection_that_waits_again_before_a_defect_leaves_once() -> None:
    class BrokenSession(StompSession):
        def read_on(self) -> None:
            self.share.charge(INPUT_STEPS)
            raise KeyError("ours")

    gateway = StompGateway()
    link = BrokenLink()
    session = BrokenSession(gateway.broker, link, gateway.settings, 0)
    session.receive_data(frame("CONNECT", b"", **{"accept-version": "1.2"}) + pairs(), 0)
    session.share.lose()
    gateway.settle()
    assert len(link.faults) == 1 and session.state == CLOSED


@pytest.mark.parametrize("to", ["t", "u"], ids=["the same topic", "another topic"])
def test_what_a_commit_has_left_is_published_while_others_send(to: str) -> None:
    gateway = StompGateway()
    away = gateway.connect("1.2", **{"client-id": "away"})
    for topic in ("t", "u"):
        for number in range(400):
            name = {"activemq.subscriptionName": f"{topic}{number}"}
            away.send_octets(frame("SUBSCRIBE", destination=f"/topic/{topic}", id=f"{topic}{number}", **name))
    away.vanish()
    gateway.settle()
    committing, sending = gateway.connect("1.2"), gateway.connect("1.2")
    sends = frame("SEND", transaction="x", destination="/topic/t", persistent="true") * 50
    commit = frame("BEGIN", transaction="x") + sends + frame("COMMIT", transaction="x", receipt="r")
    arrive(gateway, sending, frame("SEND", destination=f"/topic/{to}", persistent="true") * 5_000)
    arrive(gateway, committing, commit)
    while not gateway.topic("t").late:
        one_turn(gateway)
    turns = 0
    while gateway.topic("t").late:
        one_turn(gateway)
        turns += 1
        assert turns < 200
    assert sending.session.share.is_waiting, "the other one still sends"
