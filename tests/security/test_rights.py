"""What a client may neither see nor change of others, whatever it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product

import pytest

from gateway.cli.shared.blocking_client import ConnectionLost
from protocols.amqp.v1_0.wire.composites.delivery_states import Rejected
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, UInt
from protocols.broker_headers import BROKER_HEADERS
from protocols.stomp.codec.frames import ERROR, MESSAGE, RECEIPT, SEND
from tests.support.hostile.aftermath import metrics
from tests.support.hostile.honest_clients import Trips, go_on, honest_stomp
from tests.support.hostile.hostile_config import HONEST, HOSTILE
from tests.support.hostile.hostile_peers import AmqpPeer, Hostiles, StompPeer, frame
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.waiting import wait_until

MANAGEMENT = "/topic/ActiveMQ.Scheduler.Management"
OWNER = "bank"
OWNED = "/topic/plain.owned"
DURABLE = {"activemq.subscriptionName": "owned"}


def test_what_stands_in_the_packet_of_connect_has_no_more_rights(hostile: Hostiles) -> None:
    login = f"CONNECT\naccept-version:1.2\nhost:h\nlogin:{HOSTILE[0]}\npasscode:{HOSTILE[1]}\n\n\0".encode()
    for octets in (
        frame("SEND", destination="/queue/honest.kept", receipt="1"),
        frame("SUBSCRIBE", id="1", destination="/queue/honest.kept", receipt="1"),
        frame("SUBSCRIBE", id="1", destination="/queue/honest.kept?consumer.fromOffset=first", receipt="1"),
    ):
        peer = hostile.raw()
        peer.write(login + octets)
        said = peer.read_all()
        assert b"access-denied" in said, said
        assert b"honest:" not in said, said


def test_what_stands_in_the_packet_of_open_has_no_more_rights(attacked: GatewayProcess, hostile: Hostiles) -> None:
    honest = hostile.enter_context(closing(honest_stomp(attacked)))
    raw_stomp.call(honest, SEND, [("destination", "/queue/honest.later"), ("AMQ_SCHEDULED_DELAY", "3600000")])
    before = metrics(attacked)["penstock_schedule_pending"]
    packet = protocol_header(SASL_LAYER) + encode_sasl_frame(SaslInit("PLAIN", "\0".join(("", *HOSTILE)).encode()))
    packet += protocol_header(AMQP_LAYER)
    for one in (
        *(Open("hostile"), Begin(None, 0, 100, 100)),
        Attach("r", 0, True, source=Source("honest.kept"), target=Target()),
        Attach("s", 1, False, source=Source(), target=Target(MANAGEMENT), initial_delivery_count=0),
    ):
        packet += encode_frame(0, one)
    asked = b"\x00\x53\x74" + encode({"AMQ_SCHEDULER_ACTION": "REMOVEALL"}) + b"\x00\x53\x77" + encode("")
    packet += encode_frame(0, Transfer(1, 0, b"0", 0), asked) + encode_frame(0, Close())
    peer = hostile.raw()
    peer.write(packet)
    said = peer.read_all()
    assert b"amqp:unauthorized-access" in said and b"honest:" not in said, said
    assert b"\x00\x53\x24" in said, "the question is accepted"
    assert metrics(attacked)["penstock_schedule_pending"] == before
    raw_stomp.call(honest, SEND, [("destination", MANAGEMENT), ("AMQ_SCHEDULER_ACTION", "REMOVEALL")])
    wait_until(lambda: metrics(attacked)["penstock_schedule_pending"] < before, "the honest one removes its own")


# Ways to name, or to come near, what only the honest may touch: ``honest.told.secret``, a queue and a topic.
FORMS = (
    *("/queue/{0}", "queue://{0}", "{0}", "/queue/{0}?consumer.prefetchSize=1", "/queue/{0} ", "/queue/{0},"),
    *("/queue/plain.1,/queue/{0}", "/queue/plain.1,{0}", "/topic/plain.1,/topic/{0}", "/topic/plain.1,/queue/{0}"),
    *("/queue/>", "/queue/*.told.*", "/queue/honest.>", "/queue/plain.1,>", "/queue/{0}.>", "/topic/{0}", "/topic/>"),
    *(
        "/topic/*.told.secret",
        "/topic/plain.1,/topic/>",
        "/temp-queue/{0}",
        "/remote-temp-queue/{0}",
        "/temp-topic/{0}",
    ),
    *("/queues/{0}", "/queue/{0}::{0}", "/queue/{0}?consumer.fromOffset=first", "/topic/{0}?consumer.fromOffset=first"),
    *("/topic/ActiveMQ.Advisory.>", "/topic/ActiveMQ.Advisory.MessageDelivered.Queue.{0}", "/topic/ActiveMQ.*.*.*.>"),
    *("/topic/ActiveMQ.Advisory.MessageDelivered.>", "/topic/ActiveMQ.Advisory.*.Topic.honest.told.*"),
)
SECRET = "honest.told.secret"


@pytest.mark.parametrize("more", [{}, {"browser": "true"}, DURABLE], ids=["consumer", "browser", "durable"])
def test_no_name_reads_what_may_not_be_read(more: dict[str, str], attacked: GatewayProcess, hostile: Hostiles) -> None:
    peers = {}
    for number, form in enumerate(FORMS):
        peer = peers[form] = hostile.stomp(client_id=f"any{number}")
        destination = form.format(SECRET)
        asked = {} if "from" in destination else more
        peer.write(frame("SUBSCRIBE", id="1", destination=destination, receipt="there", **asked))
    honest = hostile.enter_context(closing(honest_stomp(attacked)))
    for destination in (f"/queue/{SECRET}", f"/topic/{SECRET}", f"/queue/{SECRET}.new", f"/topic/{SECRET}.{len(more)}"):
        honest.send(SEND, [("destination", destination), ("persistent", "true"), ("receipt", "sent")], b"unspeakable")
        honest.next_frame()
    for form, peer in peers.items():
        heard, has_ended = b"", False
        peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
        while not has_ended:
            try:
                one = peer.next_frame()
            except ConnectionLost:
                break
            heard += one.body
            has_ended = one.command in (RECEIPT, ERROR) and one.head.headers.get("receipt-id") == "end"
        assert b"unspeakable" not in heard, f"{form}: {heard!r}"
        peer.write(frame("UNSUBSCRIBE", id="1", receipt="gone", **more))


def test_no_address_of_amqp_reads_it_either(attacked: GatewayProcess, hostile: Hostiles) -> None:
    """Each form of the name, as a consumer, a browser and two kinds of replay, to links that have credit."""
    starts = ("penstock:from-offset", "rabbitmq:stream-offset-spec")
    filters = [None, *({Symbol("f"): Described(Symbol(start), "first")} for start in starts)]
    modes = [None, Symbol("copy")]
    honest = hostile.enter_context(closing(honest_stomp(attacked)))
    forms = [form for form in FORMS if "temp-" not in form]  # prefixes of STOMP: to AMQP these are names of new queues
    peers = {form: hostile.amqp(f"any{number}") for number, form in enumerate(forms)}
    for is_first in (True, False):
        for destination in (f"/queue/{SECRET}", f"/topic/{SECRET}"):
            honest.send(SEND, [("destination", destination), ("persistent", "true"), ("receipt", "r")], b"unspeakable")
            honest.next_frame()
        for form, peer in peers.items() if is_first else ():
            for handle, (chosen, mode) in enumerate(product(filters, modes)):
                source = Source(form.format(SECRET), distribution_mode=mode, filter=chosen)
                peer.send(Attach(f"{handle}", handle, True, source=source, target=Target()))
                peer.send(Flow(0, 2**31 - 1, 0, 2**31 - 1, handle, 0, 100))
            peer.write(encode_frame(1, Begin(None, 0, 100, 100)))
            assert b"unspeakable" not in heard(peer), form
    for form, peer in peers.items():
        peer.write(encode_frame(2, Begin(None, 0, 100, 100)))
        assert b"unspeakable" not in heard(peer), form


def heard(peer: AmqpPeer) -> bytes:
    """Return what messages brought before the begin that is to come."""
    octets = b""
    while not isinstance(one := peer.next_frame(), Begin):
        octets += peer.payload() if isinstance(one, Transfer) else b""
    return octets


def test_a_durable_wildcard_does_not_fill_what_its_user_may_not_read(
    attacked: GatewayProcess, hostile: Hostiles
) -> None:
    honest = hostile.enter_context(closing(honest_stomp(attacked)))
    raw_stomp.call(honest, SEND, [("destination", "/topic/honest.told.before")])
    peer = hostile.stomp(client_id="hoarder")
    peer.write(frame("SUBSCRIBE", id="1", destination="/topic/>", receipt="there", **DURABLE))
    assert peer.answer().head.headers.get("receipt-id") == "there"
    peer.close()
    for name in ("before", "since"):
        raw_stomp.call(honest, SEND, [("destination", f"/topic/honest.told.{name}"), ("persistent", "true")])
        depth = f'penstock_destination_depth{{destination="honest.told.{name}",kind="topic"}}'
        assert metrics(attacked)[depth] == 0
    again = hostile.stomp(client_id="hoarder")
    again.write(frame("UNSUBSCRIBE", id="1", receipt="gone", **DURABLE))
    assert again.answer().head.headers.get("receipt-id") == "gone"


def test_the_schedule_of_others_is_neither_shown_nor_removed(attacked: GatewayProcess, hostile: Hostiles) -> None:
    def pending() -> float:
        return metrics(attacked)["penstock_schedule_pending"]

    before = pending()
    honest = hostile.enter_context(closing(honest_stomp(attacked)))
    raw_stomp.call(honest, SEND, [("destination", "/queue/honest.later"), ("AMQ_SCHEDULED_DELAY", "3600000")])
    peer = hostile.stomp()
    peer.write(frame("SUBSCRIBE", id="1", destination="/temp-queue/mine"))
    # Its own is due after the other: whoever comes to it has passed that one.
    peer.write(frame("SEND", b"own", destination="/queue/plain.1", AMQ_SCHEDULED_DELAY="7200000"))
    asked = {"destination": MANAGEMENT, "reply-to": "/temp-queue/mine"}
    peer.write(frame("SEND", **asked, AMQ_SCHEDULER_ACTION="BROWSE"))
    shown = peer.next_frame()
    assert shown.command == MESSAGE and shown.body == b"own", f"{shown.head.headers} {shown.body!r}"
    assert pending() == before + 2
    peer.write(frame("SEND", **asked, AMQ_SCHEDULER_ACTION="REMOVEALL", receipt="removed"))
    assert peer.answer().head.headers.get("receipt-id") == "removed"
    wait_until(lambda: pending() == before + 1, "its own schedule is removed, and no other")
    raw_stomp.call(honest, SEND, [("destination", MANAGEMENT), ("AMQ_SCHEDULER_ACTION", "REMOVEALL")])
    wait_until(lambda: pending() == before, "the honest one removes its own")


def test_statistics_tell_nothing_of_what_may_not_be_read(hostile: Hostiles, trips: list[Trips]) -> None:
    go_on(trips)  # the queues of the honest are there
    peer = hostile.stomp()
    peer.write(frame("SUBSCRIBE", id="1", destination="/temp-queue/mine"))
    peer.write(frame("SUBSCRIBE", id="2", destination="/queue/plain.known"))
    told = ""
    for asked in ("honest.kept", "honest.trip", "honest.>", ">", "plain.known"):
        question = {"reply-to": "/temp-queue/mine", "correlation-id": asked}
        peer.write(frame("SEND", destination=f"/queue/ActiveMQ.Statistics.Destination.{asked}", **question))
    while (one := peer.next_frame()).head.headers.get("correlation-id") != "plain.known":
        assert one.command == MESSAGE, f"{one.head.headers} {one.body!r}"
        told += f"{one.head.headers} {one.body!r}"
    assert "plain.known" in told, f"a wildcard finds what it may see; found {told}"
    assert "://honest" not in told  # another test has made one whose name begins with a blank
    peer.write(frame("SEND", destination="/queue/ActiveMQ.Statistics.Broker", **{"reply-to": "/temp-queue/mine"}))
    assert peer.refusal()[0] == "access-denied"


# -- what a client id and a subscription's name are


@pytest.fixture
def owner(hostile: Hostiles) -> Iterator[StompPeer]:
    """An honest client with a durable subscription to a topic that anybody may read."""
    owner = hostile.stomp(client_id=OWNER, login=HONEST[0], passcode=HONEST[1])
    owner.write(frame("SUBSCRIBE", id="s", destination=OWNED, ack="client", receipt="there", **DURABLE))
    assert owner.answer().head.headers.get("receipt-id") == "there"
    yield owner
    owner.write(frame("UNSUBSCRIBE", id="s", receipt="gone", **DURABLE))
    assert owner.answer().head.headers.get("receipt-id") == "gone"


@pytest.mark.parametrize(
    "said",
    [
        frame("SUBSCRIBE", id="1", destination=OWNED, **DURABLE),
        frame("SUBSCRIBE", id="1", destination="/topic/plain.other", **DURABLE),
        frame("UNSUBSCRIBE", id="1", **DURABLE),
    ],
    ids=["consume", "replace", "delete"],
)
def test_a_durable_subscription_is_its_maker_s_over_stomp(said: bytes, owner: StompPeer, hostile: Hostiles) -> None:
    for number in range(2):
        peer = hostile.stomp(client_id=OWNER)
        peer.write(said)
        assert peer.refusal()[0] in ("access-denied", "subscription-in-use", "client-id-in-use"), number
    check_owner(owner)


def test_a_durable_subscription_is_its_maker_s_over_amqp(owner: StompPeer, hostile: Hostiles) -> None:
    peer = hostile.amqp(OWNER)
    source = Source(OWNED.replace("/topic/", "topic://"), UInt(2), "never", capabilities=[Symbol("topic")])
    peer.send(Attach("owned", 0, True, source=source, target=Target()))
    refused = peer.wait_for(Detach)
    assert isinstance(refused, Detach) and refused.error is not None
    assert refused.error.condition in ("amqp:unauthorized-access", "amqp:resource-locked")
    check_owner(owner)


def check_owner(owner: StompPeer) -> None:
    """The subscription is there, and gets what is published."""
    owner.write(frame("SEND", b"mine", destination=OWNED, persistent="true"))
    message = owner.next_frame()
    assert (message.command, message.body) == (MESSAGE, b"mine"), f"{message.head.headers} {message.body!r}"
    owner.write(frame("ACK", id=message.head.headers["ack"], receipt="taken"))
    assert owner.answer().head.headers.get("receipt-id") == "taken"


def test_nobody_sends_in_the_name_of_another(hostile: Hostiles) -> None:
    reader = hostile.stomp()
    reader.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.named", receipt="1"))
    reader.answer()
    peer = hostile.amqp()
    peer.send(Attach("s", 0, False, source=Source(), target=Target("topic://plain.named"), initial_delivery_count=0))
    peer.wait_for(Flow)
    octets = b"".join(
        (
            b"\x00\x53\x72" + encode({Symbol("x-opt-jms-msg-type"): 77, Symbol("x-opt-dlqCause"): "forged"}),
            b"\x00\x53\x74" + encode(dict.fromkeys(sorted(BROKER_HEADERS), "forged")),
            b"\x00\x53\x77" + encode("hostile"),
        )
    )
    named = b"\x00\x53\x73" + encode([None, HONEST[0].encode()])
    peer.write(encode_frame(0, Transfer(0, 0, b"0", 0), named + octets))
    answer = peer.wait_for(Disposition)
    assert isinstance(answer, Disposition) and isinstance(answer.state, Rejected)
    peer.write(encode_frame(0, Transfer(0, 1, b"1", 0), octets))
    message = reader.next_frame()
    assert message.body == b"hostile"
    assert "forged" not in str(message.head.headers)
