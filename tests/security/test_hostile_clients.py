"""What one client can do to others, a scenario for each: they go on, and once it has gone nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from engine.features.statistics_plugin import QUESTIONS_PER_CLIENT_MAX
from gateway.cli.blocking_client import ConnectionLost
from gateway.log_lines import LINES_MAX
from protocols.amqp.v1_0.wire.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Transfer
from protocols.amqp.v1_0.wire.termini import Source, Target
from protocols.amqp.v1_0.wire.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.value_encoder import encode
from protocols.amqp.v1_0.wire.values import Described, Symbol, ULong
from protocols.stomp.codec.frames import MESSAGE, SEND
from tests.support import typed_amqp
from tests.support.aftermath import MIB, memory_bytes, metrics
from tests.support.gateway_process import GatewayProcess
from tests.support.honest_clients import AmqpTrips, StompTrips, honest_stomp
from tests.support.hostile_config import CONNECTIONS_PER_ADDRESS, HONEST, HOSTILE
from tests.support.hostile_peers import Hostiles, basic, frame, request
from tests.support.waiting import wait_until

GROWTH_MAX_BYTES = 64 * MIB  # of the process while it is attacked: its own limits come to a few MiB here

HOLDERS = 10  # connections that hold as much as they can
MANAGEMENT = "/topic/ActiveMQ.Scheduler.Management"

Both = list[StompTrips | AmqpTrips]


@pytest.fixture
def hostile(attacked: GatewayProcess, trips: Both) -> Iterator[Hostiles]:
    with Hostiles(attacked) as hostile:
        yield hostile


def go_on(trips: Both) -> None:
    """The honest complete some round trips while the attack is there."""
    for one in trips:
        one.more(2)


def come_in(gateway: GatewayProcess) -> None:
    """An honest client logs in, sends and is answered."""
    with closing(honest_stomp(gateway)) as newcomer:
        newcomer.call(SEND, [("destination", "/topic/honest.nobody")])


# -- rights


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


def test_the_schedule_of_others_is_neither_shown_nor_removed(attacked: GatewayProcess, hostile: Hostiles) -> None:
    def pending() -> float:
        return metrics(attacked)["penstock_schedule_pending"]

    before = pending()
    honest = hostile.enter_context(closing(honest_stomp(attacked)))
    honest.call(SEND, [("destination", "/queue/honest.later"), ("AMQ_SCHEDULED_DELAY", "3600000")])
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
    honest.call(SEND, [("destination", MANAGEMENT), ("AMQ_SCHEDULER_ACTION", "REMOVEALL")])
    wait_until(lambda: pending() == before, "the honest one removes its own")


def test_statistics_tell_nothing_of_what_may_not_be_read(hostile: Hostiles, trips: Both) -> None:
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
    assert "honest" not in told
    peer.write(frame("SEND", destination="/queue/ActiveMQ.Statistics.Broker", **{"reply-to": "/temp-queue/mine"}))
    assert peer.refusal()[0] == "access-denied"


# -- connections, logins, the log


def test_wrong_passwords_keep_nobody_out(attacked: GatewayProcess, hostile: Hostiles, trips: Both) -> None:
    peers = []
    for number in range(CONNECTIONS_PER_ADDRESS - 5):
        peer = hostile.raw()
        peer.write(f"CONNECT\naccept-version:1.2\nhost:h\nlogin:alice\npasscode:{number}\n\n\0".encode())
        peers.append(peer)
    come_in(attacked)
    go_on(trips)
    for peer in peers[3:]:
        peer.close()  # these are not checked any more
    for peer in peers[:3]:
        assert b"login-refused" in peer.read_all()


def test_no_address_takes_all_connections(attacked: GatewayProcess, hostile: Hostiles, trips: Both) -> None:
    before = metrics(attacked)["penstock_refused_connections_total"]
    peers = [hostile.raw() for _ in range(CONNECTIONS_PER_ADDRESS + 20)]
    for peer in peers[CONNECTIONS_PER_ADDRESS:]:
        assert b"too many connections" in peer.read_all()
    assert metrics(attacked)["penstock_refused_connections_total"] == before + 20
    come_in(attacked)
    go_on(trips)


def test_half_requests_and_half_frames_end_by_themselves(hostile: Hostiles, trips: Both) -> None:
    halves = [hostile.raw() for _ in range(12)]
    for number, peer in enumerate(halves):
        peer.write((b"CONNECT\naccept-ver", b"AMQP\x03\x01", b"SEND\n\n", b"")[number % 4])
    requests = [hostile.http() for _ in range(60)]  # with the others more than an address may have
    for web in requests:
        web.write(b"GET /healthz HTTP/1.1\r\nHost: lo")
    go_on(trips)
    for peer in halves + requests:
        peer.read_all()


def test_an_address_writes_so_many_lines_to_the_log(attacked: GatewayProcess, hostile: Hostiles, trips: Both) -> None:
    before = len(attacked.log.read_text().splitlines())
    left_out = metrics(attacked)["penstock_left_out_log_lines_total"]
    for _ in range(2 * LINES_MAX):
        peer = hostile.raw()
        peer.write(b"JUMP\nforged\r\x1b[31m:x\n\n\0")
        peer.read_all()
        peer.close()
        web = hostile.http()
        web.write(b"GET /\r\x07 HTTP/1.1\r\nforged\n\n")
        web.read_all()
        web.close()
    go_on(trips)
    lines = attacked.log.read_text().splitlines()[before:]
    assert len(lines) <= 2 * LINES_MAX + 10, f"{len(lines)} lines, the last of them {lines[-3:]}"
    assert all(line[:2] == "20" for line in lines), "a line that begins with no time has been forged"
    assert metrics(attacked)["penstock_left_out_log_lines_total"] >= left_out + 2 * LINES_MAX


def test_deep_json_and_credentials_that_are_none_are_refused(hostile: Hostiles) -> None:
    deep = "[" * 50_000
    for octets, status in (
        (request("/api/schedule/cancel", "POST", deep, basic(HOSTILE)), b"403"),
        (request("/api/schedule/cancel", "POST", deep, basic(HONEST)), b"400"),
        (request("/api/stat", credentials=b"/w=="), b"401"),
        (request("/api/stat", credentials=b"\xff"), b"401"),
        (request("/api/stat", credentials=basic(HOSTILE)), b"403"),
        (request("/api/stat", credentials=basic(HONEST)), b"200"),
    ):
        peer = hostile.http()
        peer.write(octets)
        assert peer.read_all().split(b" ", 2)[1] == status


# -- memory


def test_open_transactions_share_one_budget(attacked: GatewayProcess, hostile: Hostiles, trips: Both) -> None:
    before_bytes = memory_bytes(attacked)
    ended = metrics(attacked)["penstock_holders_ended_total"]
    for _ in range(HOLDERS):
        peer = hostile.stomp()
        for name in "abcd":
            peer.write(frame("BEGIN", transaction=name))
            for _ in range(25):
                peer.write(frame("SEND", b"x" * 10_000, destination="/queue/plain.1", transaction=name))
        peer.write(b"SEND\ndestination:/queue/plain.1\ncontent-length:250000\n\n" + b"x" * 249_000)
    go_on(trips)
    check_budget(attacked, ended)
    assert memory_bytes(attacked) - before_bytes < GROWTH_MAX_BYTES


def test_link_names_share_it(attacked: GatewayProcess, hostile: Hostiles, trips: Both) -> None:
    before_bytes = memory_bytes(attacked)
    ended = metrics(attacked)["penstock_holders_ended_total"]
    for _ in range(HOLDERS):
        peer = hostile.amqp()
        peer.write(encode_frame(1, Begin(None, 0, 100, 100)))
        for number in range(90):
            name = f"{number}" + "n" * 15_000
            attach = Attach(name, number // 2, True, source=Source("plain.1"), target=Target())
            peer.write(encode_frame(number % 2, attach))
    go_on(trips)
    check_budget(attacked, ended)
    assert memory_bytes(attacked) - before_bytes < GROWTH_MAX_BYTES


def check_budget(gateway: GatewayProcess, ended_before: float) -> None:
    """See that some were ended, and that the rest fits."""
    wait_until(lambda: metrics(gateway)["penstock_holders_ended_total"] > ended_before, "who holds the most is ended")
    now = metrics(gateway)
    assert now["penstock_connections_held_bytes"] <= now["penstock_connections_held_limit_bytes"]


def test_bodies_under_way_end_by_themselves(attacked: GatewayProcess, hostile: Hostiles, trips: Both) -> None:
    before_bytes = memory_bytes(attacked)
    stomp, amqp = [], []
    for _ in range(20):
        stomp.append(hostile.stomp())
        stomp[-1].write(b"SEND\ndestination:/queue/plain.1\ncontent-length:250000\n\n" + b"x" * 249_000)
        peer = hostile.amqp()
        peer.send(Attach("s", 0, False, source=Source(), target=Target("plain.1"), initial_delivery_count=0))
        peer.wait_for(Flow)
        part = Transfer(0, 0, b"t", 0, more=True)
        peer.write(b"".join(encode_frame(0, part, b"x" * 15_000) for _ in range(15)))
        amqp.append(peer)
    go_on(trips)
    assert memory_bytes(attacked) - before_bytes < GROWTH_MAX_BYTES
    for one in stomp:
        assert one.refusal()[0] == "timed-out"
    for peer in amqp:
        peer.wait_for(Detach, End, Close)


def test_one_message_to_many_queues_is_bounded(attacked: GatewayProcess, hostile: Hostiles, trips: Both) -> None:
    before_bytes = memory_bytes(attacked)
    peer = hostile.stomp()
    many = ",".join(f"/queue/plain.{number}" for number in range(1, 4)) + ",/queue/drop.1" * 200
    peer.write(frame("SEND", b"x" * 250_000, destination=many[:4_000].rpartition(",")[0], receipt="1"))
    peer.answer()
    go_on(trips)
    assert memory_bytes(attacked) - before_bytes < GROWTH_MAX_BYTES
    empty(hostile, "plain.1", "plain.2", "plain.3", "drop.1")


def test_who_reads_nothing_is_given_up(attacked: GatewayProcess, hostile: Hostiles, trips: Both) -> None:
    honest_count = metrics(attacked)["penstock_connections"]
    deaf = hostile.stomp()
    deaf.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.deaf", ack="auto", receipt="1"))
    deaf.answer()
    loud = hostile.stomp()
    for _ in range(400):
        loud.write(frame("SEND", b"x" * 50_000, destination="/topic/plain.deaf", expiration="3000"))
    loud.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    assert loud.answer().head.headers["receipt-id"] == "end"
    go_on(trips)
    wait_until(lambda: metrics(attacked)["penstock_connections"] == honest_count + 1, "only the loud one is left")


# -- the one thread of the engine


@pytest.mark.parametrize(
    "selector",
    ["p LIKE '%" + "a%" * 30 + "b'", " AND ".join(["p LIKE '%a%a%a%b%'"] * 9), "XPATH '//a[.//b[.//c]]'"],
    ids=["many wildcards", "nine of them", "XPath"],
)
def test_costly_selectors_hold_nobody(selector: str, hostile: Hostiles, trips: Both) -> None:
    peer = hostile.stomp()
    peer.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.select", selector=selector, receipt="1"))
    peer.answer()
    body = b"<a>" * 200 + b"<b/>" + b"</a>" * 200
    for _ in range(30):
        peer.write(frame("SEND", body, destination="/topic/plain.select", p="a" * 4_000))
    peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    go_on(trips)
    assert peer.answer().head.headers["receipt-id"] == "end"


def test_a_cron_that_never_comes_is_refused(hostile: Hostiles, trips: Both) -> None:
    for cron in ("0 0 31 2 *", "0 0 30 2 *", "61 * * * *"):
        peer = hostile.stomp()
        peer.write(b"SEND\ndestination:/queue/plain.1\nAMQ_SCHEDULED_CRON:" + cron.encode() + b"\n\n\0")
        assert peer.refusal()[0] == "invalid-option"
    go_on(trips)


def test_many_questions_in_one_send_are_answered_in_turns(hostile: Hostiles, trips: Both) -> None:
    peers = [hostile.stomp() for _ in range(5)]
    many = ",".join(f"/queue/ActiveMQ.Statistics.Destination.{'*.' * number}>" for number in range(20))
    for peer in peers:
        peer.write(frame("SUBSCRIBE", id="1", destination="/temp-queue/mine"))
        for _ in range(QUESTIONS_PER_CLIENT_MAX // 20):
            peer.write(frame("SEND", destination=many, **{"reply-to": "/temp-queue/mine"}))
        peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    go_on(trips)
    for peer in peers:
        end = peer.answer()
        assert end.head.headers.get("receipt-id") == "end", f"{end.head.headers} {end.body!r}"


def test_many_wildcard_subscriptions_hold_nobody(hostile: Hostiles, trips: Both) -> None:
    peers = [hostile.stomp() for _ in range(10)]
    for peer in peers:
        for number in range(35):
            where = ("/queue/plain.>", "/topic/>", "/queue/*.1")[number % 3]
            peer.write(frame("SUBSCRIBE", id=f"{number}", destination=where, ack="client"))
        peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    go_on(trips)
    for number, peer in enumerate(peers):
        assert peer.answer().head.headers["receipt-id"] == "end"
        peer.write(frame("SEND", destination=f"/topic/plain.new.{number}", receipt="new"))
        assert peer.answer().head.headers["receipt-id"] == "new"
    go_on(trips)


def test_sessions_with_many_links_end_in_turns(hostile: Hostiles, trips: Both) -> None:
    peer = hostile.amqp()
    for handle in range(60):
        peer.send(Attach(f"{handle}", handle, True, source=Source(f"topic://plain.{handle % 3}"), target=Target()))
        peer.send(Flow(0, 10_000, 0, 10_000, handle, 0, 100))
        peer.wait_for(Attach)
    sender = hostile.stomp()
    for number in range(60):
        sender.write(frame("SEND", b"unsettled", destination=f"/topic/plain.{number % 3}"))
    for _ in range(20 * 60):
        peer.wait_for(Transfer)
    peer.send(End(), Begin(None, 0, 100, 100), Close())
    peer.wait_for(Close)
    go_on(trips)


# -- deaths


def test_hundreds_of_sessions_that_err_in_one_read(hostile: Hostiles, trips: Both) -> None:
    peer = hostile.amqp()
    peer.write(typed_amqp.erring_sessions(500))
    go_on(trips)
    for _ in range(500):
        peer.wait_for(End)


@pytest.mark.parametrize("descriptor", [[1], {"a": 1}, ULong(1), None], ids=repr)
def test_filters_with_any_descriptor(descriptor: object, hostile: Hostiles) -> None:
    peer = hostile.amqp()
    asked = {Symbol("s"): Described(descriptor, "a = 1")}
    peer.send(Attach("r", 0, True, source=Source("topic://plain.1", filter=asked), target=Target()))
    peer.wait_for(Attach, Close, End)


@pytest.mark.parametrize("kind", ["x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-delivery-delay"])
def test_annotations_of_a_wrong_type(kind: str, hostile: Hostiles, trips: Both) -> None:
    reader = hostile.stomp()
    reader.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.odd", receipt="1"))
    reader.answer()
    peer = hostile.amqp()
    peer.send(Attach("s", 0, False, source=Source(), target=Target("topic://plain.odd"), initial_delivery_count=0))
    peer.wait_for(Flow)
    for number, value in enumerate(([1], {"a": [1]}, 2.5, b"\xff")):
        annotations = b"\x00\x53\x72" + encode({Symbol(kind): value})
        octets = annotations + b"\x00\x53\x77" + encode("odd")
        peer.write(encode_frame(0, Transfer(0, number, b"%d" % number, 0, True), octets))
    peer.send(Close())
    peer.wait_for(Close)  # all of it was looked at
    reader.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    assert reader.answer().head.headers["receipt-id"] == "end", "the reader pays for what another sends"
    go_on(trips)


def test_bodies_that_are_none(hostile: Hostiles, trips: Both) -> None:
    reader = hostile.amqp("reader")
    reader.send(Attach("r", 0, True, source=Source("topic://plain.odd"), target=Target()))
    reader.send(Flow(0, 1_000, 0, 1_000, 0, 0, 100))
    reader.wait_for(Attach)
    peer = hostile.stomp()
    bodies = (b"9" * 5_000, b"[" * 5_000, b'"\\ud800"', b"18446744073709551616", b"")
    for body in bodies:
        peer.write(frame("SEND", body, **{"destination": "/topic/plain.odd", "amqp-body": "value"}))
    peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    assert peer.answer().head.headers["receipt-id"] == "end"
    for _ in bodies:
        reader.wait_for(Transfer)
    go_on(trips)


def test_a_scheduled_message_that_lives_as_long_as_numbers_go(hostile: Hostiles, trips: Both) -> None:
    peer = hostile.stomp()
    peer.write(
        b"SEND\ndestination:/topic/plain.1\nexpires:9223372036854775807\nAMQ_SCHEDULED_DELAY:1\nreceipt:1\n\nx\0"
    )
    assert peer.answer().head.headers.get("receipt-id") == "1"
    go_on(trips)


def test_a_send_that_waits_too_long_is_refused_while_alarms_look(hostile: Hostiles, trips: Both) -> None:
    peer = hostile.stomp()
    for number in range(21):
        peer.write(frame("SEND", destination="/queue/block.1", expiration="3000", receipt=f"{number}"))
    for _ in range(20):
        peer.answer()
    condition, _ = peer.refusal()
    assert condition == "address-full"
    go_on(trips)
    empty(hostile, "block.1")


def test_a_commit_to_a_temporary_queue_that_has_gone(hostile: Hostiles, trips: Both) -> None:
    owner = hostile.amqp("owner")
    dynamic = Source(None, dynamic=True, capabilities=[Symbol("temporary-queue")])
    owner.send(Attach("r", 0, True, source=dynamic, target=Target()))
    found = owner.wait_for(Attach)
    assert isinstance(found, Attach) and found.source is not None and found.source.address is not None
    peer = hostile.stomp()
    name = found.source.address.partition("://")[2] or found.source.address
    peer.write(
        frame("BEGIN", transaction="t")
        + b"SEND\ndestination:/remote-temp-queue/"
        + name.replace(":", "\\c").encode()
        + b"\ntransaction:t\nAMQ_SCHEDULED_DELAY:1\nreceipt:sent\n\nx\0"
    )
    peer.answer()
    owner.send(Detach(0, True))
    owner.wait_for(Detach)
    peer.write(frame("COMMIT", transaction="t", receipt="committed"))
    try:
        peer.answer()
    except ConnectionLost:
        pass  # what it is told is not the matter here
    go_on(trips)


def test_a_coordinator_that_is_told_nonsense(hostile: Hostiles, trips: Both) -> None:
    for payload in (b"", b"\x00\x53\x77\x40", b"\x00\x53\x75\xa0\x01x", b"\x00\x53\x77" + encode([1])):
        peer = hostile.amqp()
        peer.send(Attach("t", 0, False, source=Source(), target=Coordinator(), initial_delivery_count=0))
        peer.wait_for(Flow)
        peer.write(encode_frame(0, Transfer(0, 0, b"t", 0), payload))
        peer.wait_for(Detach, Disposition, End, Close)
    go_on(trips)


def empty(hostile: Hostiles, *queues: str) -> None:
    """Take what a scenario has left in queues."""
    reader = hostile.stomp()
    for queue in queues:
        reader.write(frame("SUBSCRIBE", id=queue, destination=f"/queue/{queue}", ack="auto"))
    reader.write(frame("DISCONNECT", receipt="bye"))
    reader.read_all()
