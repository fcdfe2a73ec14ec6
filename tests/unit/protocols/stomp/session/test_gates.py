"""SENDs that wait at a gate, and what waits behind them (docs/reference/semantics.md, "Full addresses")."""

from __future__ import annotations

import pytest

from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.open_transaction import ACTION_BYTES
from protocols.stomp.session.send_command import FRAME_OVERHEAD_BYTES
from protocols.stomp.session.settings import SessionSettings
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.protocols.stomp_gateway import Peer, StompGateway


def failing(settings: SessionSettings | None = None) -> StompGateway:
    """Return a gateway whose store accepts nothing."""
    gateway = StompGateway(settings=settings)
    gateway.store.fail("disk full")
    return gateway


def heal(gateway: StompGateway) -> None:
    gateway.store.heal()
    gateway.settle()


def persistent(peer: Peer, body: bytes, receipt: str, to: str = "/queue/q", **headers: str) -> None:
    peer.publish(to, body, persistent="true", receipt=receipt, **headers)


def waiting(settings: SessionSettings | None = None) -> tuple[StompGateway, Peer]:
    """Return a gateway whose store accepts nothing, and a peer whose send, with receipt 1, waits for it."""
    gateway = failing(settings)
    peer = gateway.connect()
    persistent(peer, b"1", "1")
    return gateway, peer


# -- the gate of the store


def test_persistent_sends_wait_and_go_on_in_order() -> None:
    gateway = failing()
    peer = gateway.connect()
    for number in range(5):
        persistent(peer, b"%d" % number, str(number))
    assert peer.octets == b""
    assert gateway.reason(peer) == "store: queue://q"
    heal(gateway)
    assert peer.receipts() == ["0", "1", "2", "3", "4"]
    assert gateway.reason(peer) == ""
    peer.subscribe("/queue/q", "auto")
    assert peer.bodies() == [b"0", b"1", b"2", b"3", b"4"]


def test_other_frames_go_on() -> None:
    peer = failing().connect()
    persistent(peer, b"1", "waits")
    peer.publish("/queue/other", b"2", receipt="send")
    peer.subscribe("/queue/other", receipt="subscribe")
    peer.send("BEGIN", transaction="x", receipt="begin")
    peer.send("ABORT", transaction="x", receipt="abort")
    frames = peer.take()
    assert [frame.headers.get("receipt-id", "MESSAGE") for frame in frames] == [
        "send",
        "subscribe",
        "MESSAGE",
        "begin",
        "abort",
    ]


def test_a_later_send_to_the_same_address_does_not_overtake() -> None:
    gateway, peer = waiting()
    peer.publish("/queue/q", b"2", receipt="2")  # could be accepted, were it alone
    peer.publish("/queue/other", b"3", receipt="3")
    assert peer.receipts() == ["3"]
    heal(gateway)
    assert peer.receipts() == ["1", "2"]
    peer.subscribe("/queue/q", "auto")
    assert peer.bodies() == [b"1", b"2"]


def test_a_disconnect_waits_behind_and_nothing_counts_after_it() -> None:
    gateway, peer = waiting()
    peer.send_octets(b"DISCONNECT\nreceipt:bye\n\n\0SEND\ndestination:/queue/late\nreceipt:2\n\n\0")
    peer.send("SEND", destination="/queue/late", receipt="3")
    gateway.advance(59_000)
    assert peer.octets == b"" and not peer.is_closed
    heal(gateway)
    assert peer.receipts() == ["1", "bye"]
    assert peer.is_closed
    assert not gateway.has_queue("late")


def test_a_disconnect_does_not_wait_for_ever_behind_a_gate() -> None:
    gateway, peer = waiting(SessionSettings(disconnect_time_ms=3_000))
    peer.send("DISCONNECT", receipt="bye")
    gateway.advance(2_000)
    assert peer.octets == b"" and not peer.is_closed
    gateway.advance(2_000)
    error = peer.error()
    assert (error["condition"], error["receipt-id"]) == ("timed-out", "bye")
    assert error.body == b"the end of this connection waited 3000 ms for frames that wait for queue://q"
    assert peer.link.warnings[1] == "lost with the connection: 2 unconfirmed frames that waited at a gate"


def test_the_commit_of_its_transaction_waits_whole() -> None:
    gateway = failing()
    peer = gateway.connect()
    peer.send("BEGIN", transaction="x")
    peer.publish("/queue/a", b"1", transaction="x")
    persistent(peer, b"2", "accepted", "/queue/b", transaction="x")
    peer.send("COMMIT", transaction="x", receipt="c")
    assert peer.receipts() == ["accepted"]
    assert gateway.reason(peer) == "store: queue://b"
    assert gateway.stats("a").enqueued == 0
    heal(gateway)
    assert peer.receipts() == ["c"]
    assert gateway.stats("a").enqueued == gateway.stats("b").enqueued == 1


def test_a_waiting_commit_counts_once_in_the_memory_of_its_connection() -> None:
    gateway = failing()
    peer = gateway.connect()
    peer.send("BEGIN", transaction="x")
    persistent(peer, bytes(50_000), "accepted", transaction="x")
    assert peer.session.holding().startswith("open transactions 50")
    peer.send("COMMIT", transaction="x")
    assert peer.session.holding().startswith("what waits at a gate 5")


def test_a_commit_waits_behind_a_parked_send_to_the_same_address() -> None:
    gateway, peer = waiting()
    peer.send("BEGIN", transaction="x")
    peer.publish("/queue/q", b"2", transaction="x")  # not persistent: no gate of its own
    peer.send("COMMIT", transaction="x", receipt="c")
    assert peer.octets == b""
    heal(gateway)
    assert peer.receipts() == ["1", "c"]


def test_a_commit_elsewhere_does_not_wait() -> None:
    gateway, peer = waiting()
    peer.send("BEGIN", transaction="x")
    peer.publish("/queue/other", b"2", transaction="x")
    peer.send("COMMIT", transaction="x")
    assert gateway.stats("other").enqueued == 1


def test_while_a_commit_waits_its_name_may_be_used_again() -> None:
    gateway = failing()
    peer = gateway.connect()
    for number in range(3):
        peer.send("BEGIN", transaction="tx")
        peer.publish("/queue/q", b"%d" % number, transaction="tx", persistent="true")
        peer.send("COMMIT", transaction="tx", receipt=str(number))
    assert peer.octets == b""
    heal(gateway)
    assert peer.receipts() == ["0", "1", "2"]
    peer.subscribe("/queue/q", "auto")
    assert peer.bodies() == [b"0", b"1", b"2"]


@pytest.mark.parametrize("is_receiving", [False, True])
def test_commits_that_wait_do_not_count_as_open(is_receiving: bool) -> None:
    gateway = failing()
    peer = gateway.connect()
    if is_receiving:
        peer.subscribe("/queue/other")
    for number in range(40):
        peer.send("BEGIN", transaction="tx")
        peer.publish("/queue/q", b"%d" % number, transaction="tx", persistent="true")
        peer.send("COMMIT", transaction="tx", receipt=str(number))
    assert peer.octets == b""
    heal(gateway)
    assert peer.receipts() == [str(number) for number in range(40)]


def test_commits_that_wait_are_bounded_by_what_may_wait() -> None:
    gateway = failing(SessionSettings(block_park_bytes=50 * ACTION_BYTES))
    peer = gateway.subscriber("/queue/other")
    for number in range(50):
        peer.publish("/queue/other", b"%d" % number)
    peer.send("BEGIN", transaction="tx")
    for delivery in peer.messages():
        peer.send("ACK", id=delivery["ack"], transaction="tx")
    peer.send("UNSUBSCRIBE", id="s")
    peer.publish("/queue/q", b"", transaction="tx", persistent="true")
    assert peer.link.is_reading
    peer.send("COMMIT", transaction="tx")
    assert not peer.link.is_reading, "each of its acknowledgements counts"


def test_a_connection_lost_with_a_waiting_commit_aborts_it() -> None:
    gateway = failing()
    peer = gateway.subscriber("/queue/in")
    peer.publish("/queue/in", b"job")
    peer.send("BEGIN", transaction="x")
    peer.send("ACK", id=peer.messages()[0]["ack"], transaction="x")
    peer.publish("/queue/q", b"result", transaction="x", persistent="true")
    peer.send("COMMIT", transaction="x")
    peer.vanish()
    heal(gateway)
    assert gateway.stats("q").enqueued == 0
    assert gateway.subscriber("/queue/in").bodies() == [b"job"]


def test_a_lost_socket_drops_what_waited_and_says_so() -> None:
    gateway, peer = waiting()
    persistent(peer, b"2", "2")
    peer.vanish()
    heal(gateway)
    assert gateway.stats("q").enqueued == 0
    assert peer.link.warnings == ["lost with the connection: 2 unconfirmed frames that waited at a gate"]


def test_an_error_drops_what_waited_too() -> None:
    gateway, peer = waiting()
    peer.send_octets(b"BOGUS\n\n\0")
    assert peer.error()["condition"] == "malformed-frame"
    heal(gateway)
    assert gateway.stats("q").enqueued == 0


# -- reading


def test_a_connection_that_only_sends_is_not_read_past_its_limit() -> None:
    gateway = failing(SessionSettings(block_park_bytes=3 * (FRAME_OVERHEAD_BYTES + 100)))
    peer = gateway.connect()
    for number in range(10):
        persistent(peer, b"x" * 100, str(number))
    assert not peer.link.is_reading
    assert len(peer.unread) == 7
    heal(gateway)
    assert peer.receipts() == [str(number) for number in range(10)]
    assert peer.link.is_reading


def test_one_read_with_many_sends_is_taken_only_as_far_as_the_limit() -> None:
    gateway = failing(SessionSettings(block_park_bytes=3 * FRAME_OVERHEAD_BYTES))
    peer = gateway.connect()
    send = b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:%d\n\n\0"
    peer.send_octets(b"".join(send % number for number in range(10)))
    assert len(peer.session.blocked.waiting) == 3
    heal(gateway)
    assert peer.receipts() == [str(number) for number in range(10)]


def test_a_connection_that_also_receives_is_read_on_and_then_refused() -> None:
    gateway = failing(SessionSettings(block_park_bytes=1, block_park_max_bytes=3 * (FRAME_OVERHEAD_BYTES + 160)))
    peer = gateway.subscriber("/queue/in")
    peer.publish("/queue/in", b"job")
    (message,) = peer.messages()
    for number in range(3):
        persistent(peer, b"x" * 100, str(number))
    assert peer.link.is_reading
    peer.send("ACK", id=message["ack"])
    assert gateway.stats("in").depth == 0, "its ACKs come behind its SENDs"
    persistent(peer, b"x" * 100, "3")
    error = peer.error()
    assert error["condition"] == "parked-too-much"
    assert b"wait for queue://q" in error.body


def test_a_connection_that_holds_deliveries_after_unsubscribe_only_sends() -> None:
    peer = failing(SessionSettings(block_park_bytes=1)).subscriber("/queue/in")
    peer.send("UNSUBSCRIBE", id="s")
    persistent(peer, b"x", "1")
    assert not peer.link.is_reading


def test_while_it_is_not_read_its_clocks_stand_still() -> None:
    gateway = failing(SessionSettings(block_park_bytes=1, frame_time_ms=1_000))
    peer = gateway.connect(heart_beat="1000,0")
    whole = b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:1\n\n\0"
    peer.send_octets(whole + b"SEND\ndestination:/queue/q\n")
    assert not peer.link.is_reading
    gateway.advance(600_000)
    assert not peer.is_closed
    heal(gateway)
    assert peer.receipts() == ["1"]
    gateway.advance(900)
    peer.send_octets(b"receipt:2\n\n\0")
    assert peer.receipts() == ["2"], "both clocks began anew"
    gateway.advance(2_000)
    assert not peer.is_closed
    gateway.advance(1_000)
    assert peer.error()["condition"] == "timed-out"


# -- the gate of memory


def full(count: int = 4) -> StompGateway:
    """Return a gateway whose memory is full of ``count`` messages on queue ``full``."""
    gateway = StompGateway(memory_limit_bytes=count * MESSAGE_OVERHEAD_BYTES)
    peer = gateway.connect()
    peer.publish("/queue/full", *[b"x"] * count)
    return gateway


def test_non_persistent_sends_wait_for_memory_and_persistent_ones_do_not() -> None:
    gateway = full()
    peer = gateway.connect()
    peer.publish("/queue/q", b"1", receipt="1")
    persistent(peer, b"2", "2", "/queue/p")
    assert peer.receipts() == ["2"]
    assert gateway.reason(peer) == "memory: queue://q"
    gateway.subscriber("/queue/full", "auto")
    assert peer.receipts() == ["1"]


def test_a_topic_waits_for_memory_even_if_persistent() -> None:
    gateway = full()
    peer = gateway.connect()
    persistent(peer, b"1", "1", "/topic/t")
    assert gateway.reason(peer) == "memory: topic://t"


def test_who_consumes_what_fills_memory_frees_its_own_way() -> None:
    peer = full().subscriber("/queue/full")
    messages = peer.messages()
    peer.publish("/queue/q", b"1", receipt="1")
    assert peer.octets == b""
    for message in messages:
        peer.send("ACK", id=message["ack"])
    assert peer.receipts() == ["1"]


def test_a_slow_topic_subscriber_holds_producers_up_until_it_reads() -> None:
    gateway = StompGateway(memory_limit_bytes=3 * MESSAGE_OVERHEAD_BYTES)
    slow, producer = gateway.connect(), gateway.connect()
    slow.subscribe("/topic/t", "auto")
    slow.is_stuck = True
    for number in range(20):
        producer.publish("/topic/t", b"%d" % number, receipt=str(number))
    confirmed = producer.receipts()
    assert len(confirmed) < 20
    assert gateway.reason(producer) == "memory: topic://t"
    slow.drain()
    assert confirmed + producer.receipts() == [str(number) for number in range(20)]
    assert slow.bodies() == [b"%d" % number for number in range(20)]


def test_a_commit_waits_for_memory_too() -> None:
    gateway = full()
    peer = gateway.connect()
    peer.send("BEGIN", transaction="x")
    peer.publish("/queue/q", b"1", transaction="x")
    peer.send("COMMIT", transaction="x", receipt="c")
    assert peer.octets == b""
    gateway.connect().subscribe("/queue/full", "auto")
    assert peer.receipts() == ["c"]


@pytest.mark.parametrize("version", ["1.0", "1.2"])
def test_a_wrong_request_behind_a_parked_one(version: str) -> None:
    gateway = failing()
    peer = gateway.connect(version)
    persistent(peer, b"1", "1")
    peer.send("COMMIT", transaction="unknown", receipt="2")
    (error,) = peer.take()
    assert error["receipt-id"] == "2"
    heal(gateway)
    assert gateway.stats("q").enqueued == (1 if version == "1.0" else 0)


def test_what_must_wait_on_may_have_become_too_much() -> None:
    limits = SessionSettings(block_park_bytes=1_000_000, block_park_max_bytes=1)
    gateway = StompGateway(settings=limits, memory_limit_bytes=MESSAGE_OVERHEAD_BYTES)
    gateway.connect().publish("/queue/full", b"x")
    gateway.store.fail("disk full")
    peer = gateway.connect()
    persistent(peer, b"1", "1", "/queue/p")
    peer.publish("/queue/v", b"2", b"3", receipt="2")
    peer.subscribe("/queue/in")  # from here on it may hold less
    assert peer.octets == b""
    heal(gateway)  # the persistent one goes on, the others wait for memory
    receipt, error = peer.take()
    assert (receipt["receipt-id"], error["condition"]) == ("1", "parked-too-much")
    assert peer.is_closed


def test_a_send_does_not_overtake_a_waiting_commit_at_any_of_its_addresses() -> None:
    gateway = failing()
    peer = gateway.connect()
    peer.send("BEGIN", transaction="x")
    peer.publish("/queue/a", b"1", transaction="x")
    peer.publish("/queue/b", b"2", transaction="x", persistent="true")
    peer.send("COMMIT", transaction="x", receipt="c")
    peer.publish("/queue/a", b"3", receipt="later")
    assert peer.octets == b""
    heal(gateway)
    assert peer.receipts() == ["c", "later"]
    peer.subscribe("/queue/a", "auto")
    assert peer.bodies() == [b"1", b"3"]


# -- what waiting costs, and who gives it up


def test_headers_count_towards_what_may_wait() -> None:
    peer = failing(SessionSettings(block_park_bytes=FRAME_OVERHEAD_BYTES + 5_000)).connect()
    peer.publish("/queue/q", b"", persistent="true", note="x" * 5_000)
    assert not peer.link.is_reading


def test_a_commit_that_waits_counts_its_messages() -> None:
    peer = failing(SessionSettings(block_park_bytes=FRAME_OVERHEAD_BYTES + 5_000)).connect()
    peer.send("BEGIN", transaction="x")
    peer.publish("/queue/q", b"x" * 5_000, transaction="x", persistent="true")
    assert peer.link.is_reading
    peer.send("COMMIT", transaction="x")
    assert not peer.link.is_reading


def test_input_that_ends_drops_what_waited_and_says_so() -> None:
    gateway, peer = waiting()
    assert peer.session.is_blocked()
    peer.session.input_ended()
    gateway.settle()
    assert peer.is_closed
    heal(gateway)
    assert gateway.stats("q").enqueued == 0
    assert peer.link.warnings == ["lost with the connection: 1 unconfirmed frame that waited at a gate"]


def test_who_said_disconnect_may_hang_up_while_it_waits() -> None:
    gateway, peer = waiting()
    peer.send("DISCONNECT", receipt="bye")
    assert not peer.session.is_blocked()
    peer.session.input_ended()
    gateway.settle()
    assert not peer.is_closed
    heal(gateway)
    assert peer.receipts() == ["1", "bye"]
    assert peer.is_closed


def test_a_disconnect_that_waits_again_waits_no_longer() -> None:
    gateway, peer = waiting(SessionSettings(disconnect_time_ms=3_000))
    peer.send("DISCONNECT", receipt="bye")
    gateway.advance(2_000)
    peer.session.admit()  # another gate has opened; this one is still shut
    gateway.advance(900)
    assert peer.octets == b""
    gateway.advance(200)
    assert peer.error()["condition"] == "timed-out"


@pytest.mark.parametrize("is_disconnect", [True, False])
def test_the_end_does_not_wait_for_ever_for_the_disk(is_disconnect: bool) -> None:
    gateway = StompGateway(settings=SessionSettings(disconnect_time_ms=3_000))
    gateway.syncs = False
    peer = gateway.connect()
    persistent(peer, b"1", "1")
    if is_disconnect:
        peer.send("DISCONNECT", receipt="bye")
    else:
        peer.session.input_ended()
    gateway.advance(2_800)
    assert peer.octets == b"" and not peer.is_closed
    gateway.advance(400)
    error = peer.error()
    assert (error["condition"], error.headers.get("receipt-id")) == ("timed-out", "bye" if is_disconnect else None)
    assert b"waited 3000 ms for the store to take the frames before it" in error.body


def test_input_that_ends_waits_for_the_confirmations_before_it() -> None:
    gateway = StompGateway()
    gateway.syncs = False
    peer = gateway.connect()
    persistent(peer, b"1", "1")
    peer.session.input_ended()
    peer.session.input_ended()  # told twice, as after a pause
    gateway.settle()
    assert not peer.is_closed
    gateway.sync()
    assert peer.receipts() == ["1"]
    assert peer.is_closed


@pytest.mark.parametrize("destination", ["/queue/q", "/queue/other,/queue/q"])
def test_who_waits_at_an_address_that_was_deleted_and_made_anew_waits_no_longer_than_it_says(destination: str) -> None:
    full = {"full__address_full_policy": "BLOCK", "full__max_size_messages": 1, "full__block_timeout_ms": 500}
    gateway = StompGateway(address("q", **full))
    peer, other = gateway.connect(), gateway.connect()
    peer.publish(destination, b"1")
    gateway.delete(gateway.queue_there("q"), is_forced=True)
    gateway.settle()
    other.publish("/queue/q", b"2")
    peer.publish(destination, b"3")  # its head is known, and names the one that is gone
    assert gateway.reason(peer).startswith("address-full: queue://q holds 1 of 1 messages (max-size-messages)")
    gateway.advance(500)
    assert peer.error()["condition"] == "address-full"


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_who_waits_goes_on_once_what_left_settled_has_made_room(persistent: str) -> None:
    full = {"full__address_full_policy": "BLOCK", "full__max_size_messages": 1}
    gateway = AmqpGateway(address("q", **full))
    peer = gateway.connect()
    peer.publish("/queue/q", b"1", b"2", persistent=persistent)
    assert gateway.reason(peer)
    receiver = gateway.amqp_session()
    receiver.attach_receiver("queue://q", credit=10, snd_settle_mode=1)  # settled as it leaves, behind the turn
    assert (len(receiver.transfers()), gateway.reason(peer)) == (2, "")
