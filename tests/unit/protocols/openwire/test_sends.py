"""Sends of OpenWire clients: confirmations, windows, gates, and what failover clients send again."""

from __future__ import annotations

import pytest

from protocols import map_message as words
from protocols.map_message import Typed
from protocols.openwire.mapping.openwire_form import read_properties
from protocols.openwire.wire.commands import ProducerAck, RemoveInfo, Response
from protocols.openwire.wire.identities import ConnectionId
from protocols.openwire.wire.property_map import write_map
from tests.support.engine.engine_world import address
from tests.support.protocols.openwire_gateway import (
    OpenWireGateway,
    message_in,
    queue,
    strings,
    text_in,
    topic,
)


def test_a_message_arrives_as_it_was_sent() -> None:
    gateway = OpenWireGateway()
    consumer = gateway.openwire_consumer(queue("q"))
    producer = gateway.connect_openwire()
    properties = write_map({"n": Typed(words.INT, 7), **strings(colour="red")})
    message = producer.message(
        queue("q"), "hello", persistent=True, correlation_id="c", type="order", marshalled_properties=properties
    )
    producer.ask(message)
    (dispatch,) = consumer.dispatches()
    assert dispatch.consumer_id == consumer.consumer_id()
    assert dispatch.destination == queue("q")
    found = message_in(dispatch)
    assert found.message_id is not None
    found.message_id = found.message_id._replace(broker_sequence=0)
    assert found == message


@pytest.mark.parametrize("version", [9, 12])
def test_versions_share_destinations(version: int) -> None:
    gateway = OpenWireGateway()
    consumer = gateway.connect_openwire(version=version)
    consumer.consume(queue("q"))
    gateway.connect_openwire(version=21 - version).publish(queue("q"), "hello")
    (dispatch,) = consumer.dispatches()
    assert text_in(dispatch) == "hello"
    consumer.acknowledge(dispatch)
    assert gateway.stats("q").depth == 0


def test_a_persistent_send_is_confirmed_once_it_is_durable() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    gateway.syncs = False
    message = peer.message(queue("q"), "x", persistent=True)
    message.command_id, message.response_required = 9, True
    peer.send(message)
    assert peer.take() == []
    gateway.sync()
    assert peer.one(Response).correlation_id == 9


def test_a_send_without_a_response_gets_none() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    peer.send(peer.message(queue("q"), "x"))
    assert peer.take() == []
    assert gateway.stats("q").depth == 1


def test_a_window_is_given_back() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    peer.add_producer(queue("q"), window_size=5_000)
    message = peer.message(queue("q"), "hello")
    peer.send(message)
    assert peer.one(ProducerAck).size == 1024 + len(message.content)
    peer.ask(peer.message(queue("q"), "hello"))


def test_composite_destinations_have_copies() -> None:
    gateway = OpenWireGateway()
    one = gateway.openwire_consumer(queue("one"))
    two = gateway.openwire_consumer(topic("two"))
    both = queue("one,topic://two,queue://one")
    gateway.connect_openwire().publish(both, "x")
    for peer, destination in ((one, queue("one")), (two, topic("two"))):
        (dispatch,) = peer.dispatches()
        assert dispatch.destination == message_in(dispatch).destination == destination
        assert message_in(dispatch).original_destination == both
        assert text_in(dispatch) == "x"


def test_a_user_that_a_client_claims_is_not_kept() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    claimed = write_map(strings(JMSXUserID="mallory", colour="red"))
    gateway.connect_openwire().publish(queue("q"), "x", marshalled_properties=claimed)
    (dispatch,) = peer.dispatches()
    assert read_properties(message_in(dispatch).marshalled_properties) == strings(colour="red")


def test_a_full_address_holds_the_response_back() -> None:
    gateway = OpenWireGateway(address("q", full__max_size_bytes=600, full__address_full_policy="BLOCK"))
    peer = gateway.connect_openwire()
    peer.publish(queue("q"), "x" * 500)
    message = peer.message(queue("q"), "late", persistent=True)
    message.response_required = True
    peer.send(message)
    assert peer.take() == []
    assert "full" in gateway.reason(peer) or gateway.reason(peer)  # type: ignore[arg-type]
    consumer = gateway.openwire_consumer(queue("q"))
    (dispatch,) = consumer.dispatches()
    consumer.acknowledge(dispatch)
    assert peer.one(Response)
    assert consumer.texts() == ["late"]


def test_a_full_address_that_fails() -> None:
    gateway = OpenWireGateway(address("q", full__max_size_bytes=600, full__address_full_policy="FAIL"))
    peer = gateway.connect_openwire()
    peer.publish(queue("q"), "x" * 500)
    exception = peer.refused(peer.message(queue("q"), "late", persistent=True))
    assert exception.class_name == "javax.jms.ResourceAllocationException"


def test_a_message_of_another_connection_is_refused() -> None:
    gateway = OpenWireGateway()
    other = gateway.connect_openwire()
    peer = gateway.connect_openwire()
    assert "belongs to another connection" in peer.refused(other.message(queue("q"), "x")).message


def test_the_user_that_a_client_claims_is_dropped() -> None:
    gateway = OpenWireGateway()
    consumer = gateway.openwire_consumer(queue("q"))
    gateway.connect_openwire().publish(queue("q"), "x", user_id="root")
    (dispatch,) = consumer.dispatches()
    assert message_in(dispatch).user_id is None


def test_a_delayed_message() -> None:
    gateway = OpenWireGateway()
    consumer = gateway.openwire_consumer(queue("q"))
    properties = write_map({"AMQ_SCHEDULED_DELAY": Typed(words.LONG, 5_000), **strings(colour="red")})
    gateway.connect_openwire().publish(queue("q"), "later", marshalled_properties=properties)
    assert consumer.take() == []
    gateway.advance(6_000)
    (dispatch,) = consumer.dispatches()
    found = read_properties(message_in(dispatch).marshalled_properties)
    assert found["colour"].value == "red"
    assert "AMQ_SCHEDULED_DELAY" not in found
    assert "scheduledJobId" in found


def test_a_client_cancels_a_schedule_by_its_id() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    later = write_map({"AMQ_SCHEDULED_DELAY": Typed(words.LONG, 5_000)})
    peer.publish(queue("q"), "first", "second", marshalled_properties=later)
    answers = gateway.openwire_consumer(queue("answers"))
    browse = write_map(strings(AMQ_SCHEDULER_ACTION="BROWSE"))
    peer.publish(topic("ActiveMQ.Scheduler.Management"), "", marshalled_properties=browse, reply_to=queue("answers"))
    first, _ = answers.dispatches()
    job_id = str(read_properties(message_in(first).marshalled_properties)["scheduledJobId"].value)
    remove = write_map(strings(AMQ_SCHEDULER_ACTION="REMOVE", scheduledJobId=job_id))
    peer.publish(topic("ActiveMQ.Scheduler.Management"), "", marshalled_properties=remove)
    consumer = gateway.openwire_consumer(queue("q"))
    gateway.advance(6_000)
    assert consumer.texts() == ["second"]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_message_that_a_failover_client_sends_again_is_accepted_once(*, is_kept: bool) -> None:
    gateway = OpenWireGateway()
    first = gateway.connect_openwire("c", connection_id="ID:same", fault_tolerant=True)
    message = first.message(queue("q"), "x", persistent=is_kept)
    first.ask(message)
    first.vanish()
    again = gateway.connect_openwire("c", connection_id="ID:same", failover_reconnect=True)
    again.sequence = first.sequence
    again.ask(message)
    again.publish(queue("q"), "y")
    assert gateway.openwire_consumer(queue("q")).texts() == ["x", "y"]


def test_a_restart_remembers_what_failover_clients_sent() -> None:
    gateway = OpenWireGateway(is_restartable=True)
    peer = gateway.connect_openwire("c", connection_id="ID:same", fault_tolerant=True)
    message = peer.message(queue("q"), "x", persistent=True)
    peer.ask(message)
    later = OpenWireGateway(earlier=gateway)
    again = later.connect_openwire("c", connection_id="ID:same", failover_reconnect=True)
    again.ask(message)
    assert later.stats("q").depth == 1


def test_the_senders_own_duplicate_id() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    for _ in range(2):
        peer.publish(queue("q"), "x", marshalled_properties=write_map(strings(_AMQ_DUPL_ID="1")))
    assert gateway.stats("q").depth == 1


def test_the_end_of_a_connection_waits_behind_its_messages() -> None:
    gateway = OpenWireGateway(address("q", full__max_size_bytes=600, full__address_full_policy="BLOCK"))
    consumer = gateway.openwire_consumer(queue("q"), prefetch=1)
    peer = gateway.connect_openwire()
    for text in ("x" * 500, "late", "last"):
        peer.send(peer.message(queue("q"), text))
    peer.send(RemoveInfo(9, True, ConnectionId(peer.connection_id), -1))
    assert peer.take() == []
    for _ in range(3):
        (dispatch,) = consumer.dispatches()
        consumer.acknowledge(dispatch)
    assert peer.one(Response).correlation_id == 9
    assert gateway.stats("q").depth == 0


def test_only_the_same_message_of_the_same_producer_is_one_that_comes_again() -> None:
    """The text of an id may be any, and the id of a connection may be long."""
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire("c", connection_id="ID:" + "x" * 497, fault_tolerant=True)
    for number in range(3):
        message = peer.message(queue("q"), f"{number}", persistent=True)
        message.message_id = message.message_id._replace(text_view="ID:the-same")
        peer.ask(message)
    peer.publish(queue("q"), "3", "4")
    assert gateway.openwire_consumer(queue("q")).texts() == ["0", "1", "2", "3", "4"]


def test_nobody_takes_the_place_of_anothers_message() -> None:
    """Ids of connections are public, and messages name them."""
    gateway = OpenWireGateway()
    victim = gateway.connect_openwire("c", connection_id="ID:victim", fault_tolerant=True)
    thief = gateway.connect_openwire("d", connection_id="ID:thief", fault_tolerant=True)
    forged = thief.message(queue("q"), "forged", persistent=True)
    forged.message_id = forged.message_id._replace(producer_id=victim.producer_id())
    thief.ask(forged)
    victim.publish(queue("q"), "mine")
    assert gateway.openwire_consumer(queue("q")).texts() == ["forged", "mine"]


def test_no_writer_takes_the_id_of_what_a_failover_client_will_send() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire("c", connection_id="ID:same", fault_tolerant=True)
    message = peer.message(queue("q"), "mine", persistent=True)
    identity = message.message_id
    guessed = f"{identity.sequence} {identity.producer_id} "
    other = gateway.connect_openwire("other", connection_id="ID:other")
    other.publish(queue("q"), "forged", marshalled_properties=write_map(strings(_AMQ_DUPL_ID=guessed)))
    peer.ask(message)
    assert gateway.openwire_consumer(queue("q")).texts() == ["forged", "mine"]


def test_a_delayed_message_that_a_failover_client_sends_again() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire("c", connection_id="ID:same", fault_tolerant=True)
    delay = write_map({"AMQ_SCHEDULED_DELAY": Typed(words.LONG, 5_000)})
    message = peer.message(queue("q"), "x", persistent=True, marshalled_properties=delay)
    peer.ask(message)
    again = gateway.connect_openwire("c", connection_id="ID:same", failover_reconnect=True)
    again.ask(message)
    gateway.advance(6_000)
    assert gateway.openwire_consumer(queue("q")).texts() == ["x"]
