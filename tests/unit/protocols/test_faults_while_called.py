"""A defect of an adapter that shows while the engine calls it ends its connection, and not the engine's turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.values.errors import AddressFull
from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.endpoints.states import OPENED
from protocols.connection import ProtocolConnection
from protocols.stomp.session.stomp_session import StompSession
from tests.support.fakes import FakeLink
from tests.support.protocols.amqp_gateway import NoUsers
from tests.support.protocols.stomp_gateway import StompGateway

ERROR = AddressFull("full")


class BrokenLink(FakeLink):
    """Raises whatever the adapter asks of it; faults: what it was told of that."""

    def __init__(self, is_taking: bool) -> None:
        super().__init__()
        self.is_taking = is_taking
        self.faults: list[Exception] = []

    def touch(self) -> None:
        raise KeyError("ours")

    def warn(self, text: str) -> None:
        raise KeyError("ours")

    def take_fault(self, error: Exception) -> bool:
        self.faults.append(error)
        return self.is_taking


def stomp(gateway: StompGateway, link: FakeLink) -> ProtocolConnection:
    return StompSession(gateway.broker, link, gateway.settings, 0)


def amqp(gateway: StompGateway, link: FakeLink) -> ProtocolConnection:
    connection = AmqpConnection(gateway.broker, link, AmqpSettings(), NoUsers(), 0)
    connection.state = OPENED
    return connection


def late_in_amqp(session: ProtocolConnection) -> None:
    assert isinstance(session, AmqpConnection)
    session.producers.blocked.waiting = [None]  # type: ignore[list-item]
    session.waited_too_long("queue://q", ERROR)


def ended(session: ProtocolConnection) -> None:
    consumer = StompGateway().subscriber("/queue/q")
    (one,) = consumer.session.consumers.values()
    one.adapter = None
    session.browse_ended(one)


def expelled(session: ProtocolConnection) -> None:
    consumer = StompGateway().subscriber("/queue/q")
    (one,) = consumer.session.consumers.values()
    session.expel(one, ERROR, False)


CALLS: dict[str, tuple[Callable[[StompGateway, FakeLink], ProtocolConnection], Callable[[ProtocolConnection], object]]]
CALLS = {
    "STOMP give_up": (stomp, lambda session: session.give_up(ERROR)),
    "STOMP release_confirmations": (stomp, lambda session: session.release_confirmations(1)),
    "STOMP browse_ended": (stomp, ended),
    "STOMP waited_too_long": (stomp, lambda session: session.waited_too_long("queue://q", ERROR)),
    "STOMP expel": (stomp, expelled),
    "AMQP give_up": (amqp, lambda session: session.give_up(ERROR)),
    "AMQP release_confirmations": (amqp, lambda session: session.release_confirmations(1)),
    "AMQP waited_too_long": (amqp, late_in_amqp),
    "AMQP expel": (amqp, expelled),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_fault_while_the_engine_calls_is_the_connection_s(name: str) -> None:
    make, call = CALLS[name]
    link = BrokenLink(True)
    assert not call(make(StompGateway(), link))
    assert len(link.faults) == 1


@pytest.mark.parametrize("name", CALLS)
def test_one_that_is_not_taken_goes_on_its_way(name: str) -> None:
    make, call = CALLS[name]
    link = BrokenLink(False)
    session = make(StompGateway(), link)
    with pytest.raises((KeyError, AssertionError, AttributeError, TypeError)):  # TypeError: compiled, it checks types
        call(session)
    assert len(link.faults) == 1
