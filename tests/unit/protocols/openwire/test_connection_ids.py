"""Names of temporary destinations: whoever has another one's gets the answers that are meant for it."""

from __future__ import annotations

import pytest

from protocols.openwire.connection.connection_ids import FORMER_MOST
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import ConnectionInfo, DestinationInfo
from protocols.openwire.wire.identities import ConnectionId, Destination
from tests.support.protocols.openwire_gateway import OpenWireGateway, OpenWirePeer


def add(peer: OpenWirePeer, name: str) -> DestinationInfo:
    destination = Destination(identities.TEMP_QUEUE, name)
    return DestinationInfo(connection_id=ConnectionId(peer.connection_id), destination=destination)


@pytest.fixture
def guarded() -> OpenWireGateway:
    return OpenWireGateway(openwire=OpenWireSettings(needs_login=True))


def logged_in(gateway: OpenWireGateway, user: str, connection_id: str) -> OpenWirePeer:
    peer = gateway.negotiated()
    peer.connection_id = connection_id
    peer.send(ConnectionInfo(1, True, ConnectionId(connection_id), connection_id, "secret", user))
    peer.answer_login(is_allowed=True)
    peer.take()
    return peer


@pytest.mark.parametrize("connection_id", ["ID:thief", "ID", "ID:victim-1"])
def test_the_name_of_a_temporary_destination_is_that_of_its_connection(connection_id: str) -> None:
    gateway = OpenWireGateway()
    victim = gateway.connect_openwire(connection_id="ID:victim-1:1")
    thief = gateway.connect_openwire(connection_id=connection_id)
    assert "without another colon" in thief.refused(add(thief, "ID:victim-1:1:1")).message
    victim.ask(add(victim, "ID:victim-1:1:1"))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_connection_id_is_its_user_s_also_while_the_client_connects_again(
    guarded: OpenWireGateway, *, is_there: bool
) -> None:
    victim = logged_in(guarded, "ann", "ID:ann")
    victim.ask(add(victim, "ID:ann:1"))
    if not is_there:
        victim.vanish()
    thief = logged_in(guarded, "bob", "ID:ann")
    for number in (1, 2):
        assert "belongs to another user" in thief.refused(add(thief, f"ID:ann:{number}")).message
    again = logged_in(guarded, "ann", "ID:ann")
    for number in (1, 2):
        again.ask(add(again, f"ID:ann:{number}"))


def test_the_oldest_ids_without_a_connection_are_forgotten(guarded: OpenWireGateway) -> None:
    for number in range(FORMER_MOST + 1):
        logged_in(guarded, "ann", f"ID:{number}").vanish()
    other = logged_in(guarded, "bob", "ID:0")
    other.ask(add(other, "ID:0:1"))
    other = logged_in(guarded, "bob", "ID:1")
    assert "belongs to another user" in other.refused(add(other, "ID:1:1")).message
