"""The same rights as in test_rights, for clients of OpenWire."""

from __future__ import annotations

from contextlib import closing

import pytest

from protocols.openwire.mapping.contents import text_content
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import (
    ConsumerInfo,
    DestinationInfo,
    ExceptionResponse,
    RemoveSubscriptionInfo,
    Response,
)
from protocols.openwire.wire.identities import ConnectionId, ConsumerId, Destination, MessageId, ProducerId
from protocols.openwire.wire.messages import TextMessage
from protocols.openwire.wire.property_map import write_map
from protocols.stomp.codec.frames import SEND
from tests.support.hostile.aftermath import metrics
from tests.support.hostile.honest_clients import honest_stomp
from tests.support.hostile.hostile_config import HONEST
from tests.support.hostile.hostile_peers import Hostiles, OpenWirePeer, frame
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.waiting import wait_until
from tests.support.protocols.openwire_gateway import queue, strings, topic

SECRET = "honest.told.secret"
MANAGEMENT = "ActiveMQ.Scheduler.Management"
NAMES = (
    *(SECRET, "honest.>", ">", "#", "*.told.*", f"plain.1,{SECRET}", f"plain.1,queue://{SECRET}", f"queue://{SECRET}"),
    *(f"plain.1,topic://{SECRET}", f"topic://{SECRET}", f"temp-queue://{SECRET}", f" {SECRET}", f"{SECRET}::{SECRET}"),
    *("ActiveMQ.Advisory.>", f"ActiveMQ.Advisory.MessageDelivered.Queue.{SECRET}", "ActiveMQ.*.*.*.>"),
)


def consumer(connection_id: str, destination: Destination, number: int = 1, *, browses: bool = False) -> ConsumerInfo:
    name = ConsumerId(connection_id, 1, number)
    return ConsumerInfo(consumer_id=name, browser=browses, destination=destination, prefetch_size=100)


def message(connection_id: str, destination: Destination, text: str = "", **properties: str) -> TextMessage:
    producer = ProducerId(connection_id, 1, 1)
    return TextMessage(
        producer_id=producer,
        destination=destination,
        message_id=MessageId(None, producer, 1, 0),
        content=text_content(text),
        marshalled_properties=write_map(strings(**properties)),
    )


def is_refused(answer: Response, text: str) -> bool:
    assert isinstance(answer, ExceptionResponse) and answer.exception is not None, answer
    return text in answer.exception.message


def test_what_stands_in_the_packet_of_connection_info_has_no_more_rights(
    attacked: GatewayProcess, hostile: Hostiles
) -> None:
    honest = hostile.enter_context(closing(honest_stomp(attacked)))
    raw_stomp.call(honest, SEND, [("destination", "/queue/honest.later"), ("AMQ_SCHEDULED_DELAY", "3600000")])
    before = metrics(attacked)["penstock_schedule_pending"]
    name = "ID:hostile"
    peer = hostile.openwire(
        name,
        behind=(
            consumer(name, queue("honest.kept")),
            message(name, queue("honest.kept")),
            message(name, queue("ActiveMQ.Statistics.Broker")),
            message(name, topic(MANAGEMENT), AMQ_SCHEDULER_ACTION="REMOVEALL"),
        ),
    )
    for number, word in ((2, "no permission to read"), (3, "no permission to write"), (4, "needs the permission")):
        assert is_refused(peer.answer(number), word)
    assert type(peer.answer(5)) is Response, "the question is accepted"
    assert metrics(attacked)["penstock_schedule_pending"] == before
    raw_stomp.call(honest, SEND, [("destination", f"/topic/{MANAGEMENT}"), ("AMQ_SCHEDULER_ACTION", "REMOVEALL")])
    wait_until(lambda: metrics(attacked)["penstock_schedule_pending"] < before, "the honest one removes its own")


@pytest.mark.parametrize("browses", [False, True])
def test_no_name_reads_what_may_not_be_read(*, browses: bool, attacked: GatewayProcess, hostile: Hostiles) -> None:
    honest = hostile.enter_context(closing(honest_stomp(attacked)))
    peers = [hostile.openwire(f"ID:hostile-{kind}") for kind in (identities.QUEUE, identities.TOPIC)]
    for is_first in (True, False):
        for destination in (f"/queue/{SECRET}", f"/topic/{SECRET}"):
            honest.send(SEND, [("destination", destination), ("persistent", "true"), ("receipt", "r")], b"unspeakable")
            honest.next_frame()
        for peer, kind in zip(peers, (identities.QUEUE, identities.TOPIC), strict=True):
            for number, name in enumerate(NAMES) if is_first else ():
                peer.ask(consumer(peer.connection_id, Destination(kind, name), number, browses=browses))
            peer.ask(message(peer.connection_id, topic("plain.none")))
            assert b"unspeakable" not in peer.heard


def temporary(peer: OpenWirePeer, name: str) -> DestinationInfo:
    destination = Destination(identities.TEMP_QUEUE, name)
    return DestinationInfo(connection_id=ConnectionId(peer.connection_id), destination=destination)


def test_nobody_takes_the_answers_of_another_users_client(hostile: Hostiles) -> None:
    name = "ID:honest-1:1"
    victim = hostile.openwire(name, HONEST)
    assert type(victim.ask(temporary(victim, f"{name}:1"))) is Response
    thieves = [hostile.openwire(one) for one in ("ID", "ID:honest-1", name)]
    for is_there in (True, False):
        if not is_there:
            victim.close()
        for thief in thieves:
            for number in (1, 2):
                assert isinstance(thief.ask(temporary(thief, f"{name}:{number}")), ExceptionResponse)
            answers = Destination(identities.TEMP_QUEUE, f"{name}:1")
            assert isinstance(thief.ask(consumer(thief.connection_id, answers)), ExceptionResponse)


def test_a_durable_subscription_is_its_maker_s(hostile: Hostiles) -> None:
    durable = {"activemq.subscriptionName": "owned"}
    owner = hostile.stomp(client_id="ID:bank", login=HONEST[0], passcode=HONEST[1])
    owner.write(frame("SUBSCRIBE", id="s", destination="/topic/plain.owned", receipt="there", **durable))
    assert owner.answer().head.headers.get("receipt-id") == "there"
    peer = hostile.openwire("ID:bank")
    for name in ("plain.owned", "plain.other"):
        asked = consumer("ID:bank", topic(name))
        asked.subscription_name = "owned"
        assert is_refused(peer.ask(asked), "belongs to another user")
    remove = RemoveSubscriptionInfo(
        connection_id=ConnectionId("ID:bank"), subscription_name="owned", client_id="ID:bank"
    )
    assert is_refused(peer.ask(remove), "belongs to another user")
    owner.write(frame("UNSUBSCRIBE", id="s", receipt="gone", **durable))
    assert owner.answer().head.headers.get("receipt-id") == "gone"
