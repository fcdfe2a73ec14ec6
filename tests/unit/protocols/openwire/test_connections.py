"""Connections of OpenWire: negotiation, login, client ids, keep-alives, and the end."""

from __future__ import annotations

from typing import Any

import pytest

from protocols import map_message as words
from protocols.map_message import Typed
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.connection.states import TRANSITIONS
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import (
    BrokerInfo,
    ConnectionControl,
    ConnectionError,
    ConnectionInfo,
    ConsumerInfo,
    ControlCommand,
    DestinationInfo,
    ExceptionResponse,
    KeepAliveInfo,
    RemoveInfo,
    Response,
    SessionInfo,
    ShutdownInfo,
    WireFormatInfo,
)
from protocols.openwire.wire.identities import ConnectionId, Destination, SessionId
from protocols.openwire.wire.layouts import MAGIC
from protocols.openwire.wire.property_map import read_map, write_map
from protocols.openwire.wire.writer import encode
from protocols.session.states import (
    AUTHENTICATING,
    CLOSED,
    CONNECTING,
    FAIL,
    FAILING,
    HANG_UP,
    LEAVE,
    LEAVING,
    LOSE,
    NEGOTIATING,
    OPEN,
    PAUSED,
    advance,
)
from tests.support.protocols.openwire_gateway import OpenWireGateway, OpenWirePeer, queue, strings

INACTIVITY = "MaxInactivityDuration"


def failure(peer: OpenWirePeer) -> str:
    """Return the exception that ended the connection, in words."""
    *_, last = peer.take()
    assert isinstance(last, ConnectionError), last
    assert last.exception is not None
    assert peer.is_closed
    return last.exception.message


def test_the_gateway_insists_on_the_loose_form() -> None:
    gateway = OpenWireGateway()
    peer = gateway.open_openwire()
    gateway.settle()
    info = peer.one(WireFormatInfo)
    values = {name: typed.value for name, typed in read_map(info.marshalled_properties or b"").items()}
    assert (info.magic, info.version) == (MAGIC, 12)
    assert not values["TightEncodingEnabled"]
    assert not values["CacheEnabled"]
    assert not values["StackTraceEnabled"]
    assert not values["SizePrefixDisabled"]
    assert values["MaxFrameSize"] == gateway.openwire_settings.frame_bytes
    assert values[INACTIVITY] == gateway.openwire_settings.idle_time_ms


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_the_lower_version_is_agreed(version: int) -> None:
    peer = OpenWireGateway().connect_openwire(version=min(version, 12))
    assert peer.session.terms.version == min(version, 12)


def test_a_version_that_is_too_old_is_refused() -> None:
    peer = OpenWireGateway().open_openwire()
    peer.send(WireFormatInfo(version=7, marshalled_properties=write_map(strings(ProviderVersion="5.5"))))
    assert peer.is_closed
    assert "speaks OpenWire 7; supported are 9 and above" in peer.link.warnings[0]


def test_a_command_before_the_negotiation_is_refused() -> None:
    peer = OpenWireGateway().open_openwire()
    peer.send(KeepAliveInfo())
    assert peer.is_closed
    assert peer.link.warnings == ["unexpected-frame: the first command is KeepAliveInfo; allowed is WireFormatInfo"]


def test_a_large_first_frame_is_refused_before_it_has_come() -> None:
    peer = OpenWireGateway().open_openwire()
    peer.send_octets((70_000).to_bytes(4, "big") + b"\x01ActiveMQ")
    assert peer.is_closed
    assert "a frame announces 70000 octets, the limit is 65536" in peer.link.warnings[0]


def test_a_command_before_connection_info_is_refused() -> None:
    peer = OpenWireGateway().negotiated()
    peer.send(SessionInfo(session_id=SessionId(peer.connection_id, 1)))
    assert failure(peer) == "SessionInfo comes before ConnectionInfo"


def test_a_failover_client_introduces_itself_first() -> None:
    peer = OpenWireGateway().negotiated()
    peer.send(ConnectionControl(fault_tolerant=True))
    peer.ask(ConnectionInfo(connection_id=ConnectionId("c"), client_id="c", failover_reconnect=True))


def test_the_broker_has_one_id() -> None:
    gateway = OpenWireGateway()
    ids = set()
    for _ in range(2):
        peer = gateway.open_openwire()
        peer.send(WireFormatInfo(version=12))
        _, info = peer.take()
        assert isinstance(info, BrokerInfo)
        ids.add(info.broker_id)
    assert len(ids) == 1


def test_a_login_is_checked() -> None:
    gateway = OpenWireGateway(openwire=OpenWireSettings(needs_login=True, groups={"ann": frozenset({"staff"})}))
    peer = gateway.negotiated()
    info = ConnectionInfo(1, True, ConnectionId("c"), "billing", "secret", "ann")
    peer.send(info)
    assert peer.link.credentials == [("ann", "secret")]
    assert peer.take() == []
    peer.answer_login(is_allowed=True)
    assert peer.one(Response).correlation_id == 1
    assert peer.session.user == "ann"
    assert peer.session.groups == {"staff"}
    assert peer.session.describe()["client_id"] == "billing"


@pytest.mark.parametrize(("provider", "package"), [("5.18.7", "javax"), ("6.1.8", "jakarta"), ("", "javax")])
def test_a_wrong_login_ends_the_connection(provider: str, package: str) -> None:
    gateway = OpenWireGateway(openwire=OpenWireSettings(needs_login=True))
    peer = gateway.negotiated(values=strings(ProviderName="ActiveMQ", ProviderVersion=provider))
    peer.send(ConnectionInfo(1, True, ConnectionId("c"), "billing", "wrong", "ann"))
    peer.answer_login(is_allowed=False)
    answer = peer.one(ExceptionResponse)
    assert answer.exception is not None
    assert answer.exception.class_name == "java.lang.SecurityException"
    assert peer.is_closed
    assert peer.session.terms.package == f"{package}.jms"


def test_a_client_id_is_required_and_sole() -> None:
    gateway = OpenWireGateway()
    peer = gateway.negotiated(values=strings(ProviderVersion="6.1.8"))
    exception = peer.refused(ConnectionInfo(connection_id=ConnectionId("c")))
    assert exception.class_name == "jakarta.jms.InvalidClientIDException"
    assert peer.is_closed
    gateway.connect_openwire("billing")
    other = gateway.negotiated()
    exception = other.refused(ConnectionInfo(connection_id=ConnectionId("d"), client_id="billing"))
    assert exception.class_name == "javax.jms.InvalidClientIDException"
    assert other.is_closed


def test_a_client_that_connects_again_takes_its_connection_over() -> None:
    gateway = OpenWireGateway()
    first = gateway.connect_openwire("billing", connection_id="ID:same")
    first.consume(queue("q"))
    gateway.connect_openwire().publish(queue("q"), "one")
    assert len(first.dispatches()) == 1
    again = gateway.connect_openwire("billing", connection_id="ID:same")
    assert first.is_closed
    again.consume(queue("q"))
    (dispatch,) = again.dispatches()
    assert dispatch.redelivery_counter == 1


def test_another_user_takes_nothing_over() -> None:
    gateway = OpenWireGateway(openwire=OpenWireSettings(needs_login=True))
    peers = []
    for user in ("ann", "bob"):
        peer = gateway.negotiated()
        peer.send(ConnectionInfo(1, True, ConnectionId("ID:same"), user, "secret", user))
        peer.answer_login(is_allowed=True)
        peers.append(peer)
    assert [peer.is_closed for peer in peers] == [False, False]


def agreed(asked_ms: int, own_ms: int = 30_000) -> tuple[OpenWireGateway, OpenWirePeer]:
    gateway = OpenWireGateway(openwire=OpenWireSettings(idle_time_ms=own_ms))
    peer = gateway.negotiated(values={INACTIVITY: Typed(words.LONG, asked_ms)})
    peer.ask(ConnectionInfo(connection_id=ConnectionId("c"), client_id="c"))
    return gateway, peer


def test_keep_alives_are_sent_and_silence_ends_the_connection() -> None:
    gateway, peer = agreed(9_000)
    gateway.advance(3_100)
    assert peer.one(KeepAliveInfo)
    peer.send(KeepAliveInfo())
    gateway.advance(17_000)
    assert not peer.is_closed
    gateway.advance(2_000)
    assert "nothing came for" in failure(peer)


@pytest.mark.parametrize(("asked_ms", "own_ms"), [(0, 30_000), (30_000, 0)])
def test_without_an_agreed_time_silence_is_allowed(asked_ms: int, own_ms: int) -> None:
    gateway, peer = agreed(asked_ms, own_ms)
    gateway.advance(500_000)
    assert peer.take() == []
    assert not peer.is_closed


def test_a_keep_alive_that_asks_is_answered() -> None:
    peer = OpenWireGateway().connect_openwire()
    peer.send(KeepAliveInfo(7, True))
    assert peer.one(KeepAliveInfo) == KeepAliveInfo()


def test_connection_info_is_due() -> None:
    gateway = OpenWireGateway()
    peer = gateway.negotiated()
    gateway.advance(gateway.openwire_settings.connect_time_ms + 1_000)
    assert "no ConnectionInfo within" in failure(peer)


def test_a_client_leaves_in_order() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    peer.ask(RemoveInfo(object_id=ConnectionId(peer.connection_id)))
    assert gateway.stats("q").consumers == 0
    peer.send(ShutdownInfo())
    assert peer.is_closed
    assert peer.take() == []


def test_the_gateway_stops() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    peer.session.shut_down()
    gateway.settle()
    assert peer.one(ConnectionControl).close
    assert peer.is_closed


def test_an_unknown_command_is_refused_by_name() -> None:
    peer = OpenWireGateway().connect_openwire()
    exception = peer.refused(ControlCommand(command="shutdown"))
    assert exception.message == "ControlCommand is not offered here"
    peer.send(ControlCommand(command="shutdown"))
    assert peer.one(ConnectionError).connection_id == ConnectionId(peer.connection_id)
    assert not peer.is_closed


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        ("ffffffff", "a frame announces -1 octets"),
        ("00000006c80000000000", "there is no command of type 200"),
        ("0000000703000000010101", "a frame ends within a command"),
        ("000000080a00000000000000", "2 octets follow a command of type 10"),
        ("0000000a0e0000000000010001ff", "a string is not in modified UTF-8"),
        ("0000000b0e00000000000100056162", "5 octets are announced where 2 are left"),
    ],
)
def test_octets_that_are_no_command_end_the_connection(octets: str, said: str) -> None:
    peer = OpenWireGateway().connect_openwire()
    peer.send_octets(bytes.fromhex(octets))
    assert said in failure(peer)


def test_commands_arrive_octet_by_octet() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    for octet in encode(SessionInfo(5, True, SessionId(peer.connection_id, 1))):
        peer.send_octets(bytes((octet,)))
    assert peer.one(Response).correlation_id == 5


def test_a_frame_that_takes_too_long_ends_the_connection() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    peer.send_octets(encode(KeepAliveInfo())[:5])
    gateway.advance(gateway.openwire_settings.frame_time_ms + 2_000)
    assert "a frame took longer than" in failure(peer)


def test_every_state_ends_when_the_socket_is_lost() -> None:
    for state in {before for before, _ in TRANSITIONS}:
        assert advance(TRANSITIONS, state, LOSE) == CLOSED
    for state in (NEGOTIATING, CONNECTING, AUTHENTICATING, OPEN, PAUSED):
        assert advance(TRANSITIONS, state, FAIL) == FAILING
    for state in (NEGOTIATING, CONNECTING, OPEN, PAUSED):
        assert advance(TRANSITIONS, state, LEAVE) == advance(TRANSITIONS, state, HANG_UP) == LEAVING
    assert all(after <= CLOSED for after in TRANSITIONS.values())


def test_what_a_client_holds_is_counted() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    message: Any = peer.message(queue("q"), "x" * 3_000)
    peer.send_octets(encode(message)[:2_000])
    assert peer.session.held_bytes >= 2_000
    peer.send_octets(encode(message)[2_000:])
    assert peer.session.held_bytes == 0


def test_a_client_that_takes_its_connection_over_has_its_temporary_queue_again() -> None:
    gateway = OpenWireGateway()
    info = DestinationInfo(
        connection_id=ConnectionId("ID:same"),
        destination=Destination(identities.TEMP_QUEUE, "ID:same:1"),
    )
    for _ in range(3):
        peer = gateway.negotiated()
        peer.connection_id = "ID:same"
        with gateway.one_turn():
            peer.send(ConnectionInfo(1, False, ConnectionId("ID:same"), "billing", fault_tolerant=True))
            peer.send(info)
            peer.send(ConsumerInfo(3, True, peer.consumer_id(), destination=info.destination, prefetch_size=1))
        assert [type(one) for one in peer.take()] == [Response]
