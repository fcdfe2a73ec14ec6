"""What ended connections leave is freed: soon where nothing happens, else once it is too much."""

from __future__ import annotations

import gc

import pytest

from gateway.process.garbage_collection import MOST_CONNECTIONS, QUIET_CONNECTIONS, QUIET_S, EndedConnections
from protocols.connection import ProtocolConnection
from tests.support.protocols.amqp_gateway import AmqpGateway


class Collections:
    """spent_s: processor time of the process."""

    def __init__(self) -> None:
        self.count = 0
        self.spent_s = 0.0
        self.ended = EndedConnections(self.collect, lambda: self.spent_s)

    def collect(self) -> None:
        self.count += 1

    def end(self, count: int) -> None:
        for _ in range(count):
            self.ended.ended()

    def check_after(self, spent_s: float) -> None:
        self.spent_s += spent_s
        self.ended.check()


def test_it_waits_for_a_quiet_second() -> None:
    seen = Collections()
    seen.end(QUIET_CONNECTIONS)
    seen.check_after(2 * QUIET_S)
    seen.check_after(2 * QUIET_S)
    assert seen.count == 0
    seen.check_after(0)
    assert seen.count == 1
    seen.check_after(0)
    assert seen.count == 1


def test_few_are_left_alone() -> None:
    seen = Collections()
    seen.end(QUIET_CONNECTIONS - 1)
    seen.check_after(0)
    assert seen.count == 0


def test_too_many_wait_for_nothing() -> None:
    seen = Collections()
    for _ in range(MOST_CONNECTIONS // 1_000):
        assert seen.count == 0
        seen.end(1_000)
        seen.check_after(2 * QUIET_S)
    assert seen.count == 1


def test_nothing_keeps_a_session_but_its_own_parts(new_objects_alone: None) -> None:
    gateway = AmqpGateway()
    peer = gateway.connect()
    peer.subscribe("/queue/q", id="1")
    peer.publish("/queue/other", b"x")
    other = gateway.amqp_session()
    other.attach_receiver("queue://q", 0)
    other.credit(0, 10)
    assert sessions() == 2
    peer.session.connection_lost()
    other.connection.connection_lost()
    gateway.peers.clear()
    del peer, other
    with gateway.one_turn():
        pass
    gc.collect()
    assert sessions() == 0


@pytest.fixture
def new_objects_alone() -> None:
    """Have the collector look at what the test makes, not at the millions of objects that a whole run has by then."""
    gc.freeze()


def sessions() -> int:
    return sum(issubclass(type(one), ProtocolConnection) for one in gc.get_objects())
