"""Messages and octets a second of a user: all its connections share them, whatever their protocol."""

from __future__ import annotations

from typing import Any

from engine.consumers.user_quota import UserLimits
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.stomp.session.settings import SessionSettings
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text
from tests.support.protocols.stomp_gateway import Peer, StompGateway
from tests.unit.protocols.test_user_limits import amqp_login, stomp_login

WAITS = "rate: queue://q takes 1 messages a second (producer-max-rate)"
WORDS = "user-rate: user 'ann' may send 3 messages a second (limits.messages-per-second-per-user), over all its"


def stomp_gateway(messages: int = 0, octets: int = 0) -> StompGateway:
    limits = UserLimits(messages_per_second=messages, bytes_per_second=octets)
    return StompGateway(settings=SessionSettings(needs_login=True), user_limits=limits)


def log_in(gateway: StompGateway, login: str) -> Peer:
    peer = stomp_login(gateway, login)
    peer.take()
    return peer


def sender(gateway: AmqpGateway, login: str, address: str = "q") -> AmqpPeer:
    peer = amqp_login(gateway, login)
    peer.take()
    peer.begin()
    peer.attach_sender(address)
    return peer


def depths(gateway: StompGateway, *names: str) -> list[int]:
    return [gateway.stats(name).depth for name in names]


def test_two_connections_share_one_budget_and_others_have_their_own() -> None:
    gateway = stomp_gateway(messages=3)
    first, second, other = log_in(gateway, "ann"), log_in(gateway, "ann"), log_in(gateway, "bob")
    first.publish("/queue/a", b"0", b"1")
    second.publish("/queue/b", b"0", b"1", b"2")
    assert depths(gateway, "a", "b") == [2, 1]
    assert (gateway.reason(first), gateway.reason(second)[: len(WORDS)]) == ("", WORDS)
    other.publish("/queue/c", b"0", b"1", b"2")
    assert depths(gateway, "c") == [3], "another user is not slowed"
    gateway.advance(999)
    assert depths(gateway, "a", "b") == [2, 1]
    gateway.advance(1)
    assert depths(gateway, "a", "b") == [2, 3]
    assert gateway.reason(second) == ""
    assert gateway.broker.inspect().producer_waits["user-rate"] == 1


def test_connections_of_a_user_take_turns() -> None:
    gateway = stomp_gateway(messages=3)
    first, second = log_in(gateway, "ann"), log_in(gateway, "ann")
    first.publish("/queue/a", *[b"%d" % number for number in range(12)])
    second.publish("/queue/b", *[b"%d" % number for number in range(6)])
    seen = [depths(gateway, "a", "b")]
    for _ in range(5):
        gateway.advance(1_000)
        seen.append(depths(gateway, "a", "b"))
    assert seen == [[3, 0], [6, 0], [6, 3], [9, 3], [9, 6], [12, 6]]
    receiver = log_in(gateway, "bob")
    receiver.subscribe("/queue/a", "auto")
    assert receiver.bodies() == [b"%d" % number for number in range(12)], "order holds"


def test_octets_may_be_exceeded_by_one_message_and_later_seconds_pay() -> None:
    gateway = stomp_gateway(octets=1_000)
    peer = log_in(gateway, "ann")
    peer.publish("/queue/q", b"x" * 3_500, b"small")
    assert depths(gateway, "q") == [1]
    assert "may send 1000 octets a second (limits.bytes-per-second-per-user)" in gateway.reason(peer)
    gateway.advance(2_999)
    assert depths(gateway, "q") == [1]
    gateway.advance(1)
    assert depths(gateway, "q") == [2]


def test_what_a_second_leaves_unused_is_lost() -> None:
    gateway = stomp_gateway(messages=3)
    peer = log_in(gateway, "ann")
    gateway.advance(60_000)
    peer.publish("/queue/q", *[b"x"] * 5)
    assert depths(gateway, "q") == [3]


def test_a_transaction_is_sent_whole_and_paid_for_later() -> None:
    gateway = stomp_gateway(messages=3)
    peer = log_in(gateway, "ann")
    peer.send("BEGIN", transaction="t")
    for number in range(7):
        peer.send("SEND", b"%d" % number, destination="/queue/q", transaction="t")
    peer.send("COMMIT", transaction="t")
    assert depths(gateway, "q") == [7]
    peer.send("BEGIN", transaction="u")
    peer.send("SEND", b"7", destination="/queue/q", transaction="u")
    peer.send("COMMIT", transaction="u", receipt="r")
    gateway.advance(1_999)
    assert peer.take() == [] and WORDS in gateway.reason(peer)
    gateway.advance(1)
    assert depths(gateway, "q") == [8]
    assert peer.receipts() == ["r"]


def test_a_transaction_that_waits_behind_others_counts_once_it_is_committed() -> None:
    limits = UserLimits(messages_per_second=10)
    gateway = StompGateway(address("q", flow__producer_max_rate_per_second=1), user_limits=limits)
    peer = gateway.connect()
    peer.publish("/queue/q", b"0", b"1", b"2")
    peer.send("BEGIN", transaction="t")
    peer.publish("/queue/q", *[b"t"] * 15, transaction="t")
    peer.send("COMMIT", transaction="t", receipt="c")
    assert WAITS in gateway.reason(peer)
    peer.publish("/queue/other", b"3")
    assert depths(gateway, "q", "other") == [1, 1], "it has sent two messages of ten"
    gateway.advance(2_000)
    assert peer.receipts() == ["c"]
    assert depths(gateway, "q") == [18]


def test_a_message_to_several_destinations_counts_once() -> None:
    gateway = stomp_gateway(messages=2)
    peer = log_in(gateway, "ann")
    peer.publish("/queue/a,/queue/b,/queue/c", b"0", b"1", b"2")
    assert depths(gateway, "a", "b", "c") == [2, 2, 2]
    gateway.advance(1_000)
    assert depths(gateway, "a", "b", "c") == [3, 3, 3]


def test_a_connection_that_goes_waits_no_longer() -> None:
    gateway = stomp_gateway(messages=1)
    first, second = log_in(gateway, "ann"), log_in(gateway, "ann")
    first.publish("/queue/q", b"0", b"1")
    second.publish("/queue/q", b"2")
    first.vanish()
    gateway.advance(1_000)
    assert depths(gateway, "q") == [2]
    assert gateway.reason(second) == ""


def test_without_logins_an_address_has_the_rate() -> None:
    gateway = StompGateway(user_limits=UserLimits(messages_per_second=1))
    first, second = gateway.connect(), gateway.connect()
    first.publish("/queue/q", b"0")
    second.publish("/queue/q", b"1")
    assert depths(gateway, "q") == [1]
    assert gateway.reason(second).startswith("user-rate: address ")
    gateway.advance(1_000)
    assert depths(gateway, "q") == [2]


def test_over_amqp_and_stomp() -> None:
    limits = UserLimits(messages_per_second=3)
    gateway = AmqpGateway(amqp=AmqpSettings(needs_login=True), user_limits=limits)
    first, second, other = sender(gateway, "ann"), sender(gateway, "ann"), sender(gateway, "bob", "other")
    first.publish("0", "1")
    for body in ("2", "3", "4"):
        second.transfer(text(body))
    assert depths(gateway, "q") == [3]
    assert accepted(second) == 1
    other.publish("0", "1", "2")
    assert depths(gateway, "other") == [3]
    gateway.advance(1_000)
    assert depths(gateway, "q") == [5]
    assert accepted(second) == 2


def accepted(peer: AmqpPeer) -> int:
    """Return how many messages have been accepted since the last call."""
    frames: list[Any] = [frame for frame in peer.take() if type(frame).__name__ == "Disposition"]
    return sum((frame.last if frame.last is not None else frame.first) - frame.first + 1 for frame in frames)
