"""What one client can take of what all share: connections, logins, the log, memory."""

from __future__ import annotations

from contextlib import closing

import pytest

from gateway.process.log_lines import LINES_MAX
from protocols.amqp.v1_0.wire.composites.composite import Error
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Close, Detach, End, Flow, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.layout import SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.values import Described, Symbol
from protocols.stomp.codec.frames import MESSAGE, RECEIPT, SEND
from tests.support.hostile.aftermath import MIB, memory_bytes, metrics
from tests.support.hostile.honest_clients import Trips, come_in, go_on, honest_stomp
from tests.support.hostile.hostile_config import CONNECTIONS_PER_ADDRESS, HONEST, HOSTILE, hostile_config
from tests.support.hostile.hostile_peers import Hostiles, basic, frame, request
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.waiting import wait_until

GROWTH_MAX_BYTES = 64 * MIB  # of the process while it is attacked: its own limits come to a few MiB here
HOLDERS = 10  # connections that hold as much as they can


def test_wrong_passwords_keep_nobody_out(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
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


def test_no_address_takes_all_connections(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
    before = metrics(attacked)["penstock_refused_connections_total"]
    peers = [hostile.raw() for _ in range(CONNECTIONS_PER_ADDRESS + 20)]
    for peer in peers[CONNECTIONS_PER_ADDRESS:]:
        assert b"too many connections" in peer.read_all()
    assert metrics(attacked)["penstock_refused_connections_total"] == before + 20
    come_in(attacked)
    go_on(trips)


@pytest.mark.usefixtures("at_length")
def test_half_requests_and_half_frames_end_by_themselves(hostile: Hostiles, trips: list[Trips]) -> None:
    halves = [hostile.raw() for _ in range(12)]
    for number, peer in enumerate(halves):
        peer.write((b"CONNECT\naccept-ver", b"AMQP\x03\x01", b"SEND\n\n", b"")[number % 4])
    requests = [hostile.http() for _ in range(60)]  # with the others more than an address may have
    for web in requests:
        web.write(b"GET /healthz HTTP/1.1\r\nHost: lo")
    go_on(trips)
    for peer in halves + requests:
        peer.read_all()


def test_an_address_writes_so_many_lines_to_the_log(
    attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]
) -> None:
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


def test_the_start_warns_of_passwords_that_the_network_can_read(start_gateway: StartGateway) -> None:
    gateway = start_gateway(hostile_config() + "listeners: {amqp: 'tcp://0.0.0.0:0'}\n")
    warnings = [line for line in gateway.log.read_text().splitlines() if " WARNING " in line]
    assert any("listeners.amqp: tcp://0.0.0.0:0 is open to the network without TLS" in line for line in warnings)
    assert not any("listeners.stomp" in line or "listeners.http" in line for line in warnings), warnings


FORGED = "\r\n2026-01-01 00:00:00 CRITICAL penstock the disk is gone\u2028\x1b[2J"


def test_nothing_that_a_peer_says_forges_a_line_of_the_log(start_gateway: StartGateway) -> None:
    """Names and texts of a peer, each where the log tells of it, and where it might."""
    gateway = start_gateway(hostile_config())
    gateway.http_login = HONEST
    with Hostiles(gateway) as hostile:
        raw = hostile.raw()
        login = {"accept-version": "1.2", "host": f"h{FORGED}", "login": f"user{FORGED}", "passcode": f"p{FORGED}"}
        raw.write(frame("CONNECT", **login, **{"client-id": f"id{FORGED}"}))
        raw.read_all()
        for command, name in (("SUBSCRIBE", "id"), ("SEND", f"header{FORGED}")):
            peer = hostile.stomp(client_id=f"id{FORGED}")
            peer.write(frame(command, destination=f"/queue/destination{FORGED}", **{name: f"value{FORGED}"}))
            assert peer.refusal()[0]
        amqp = hostile.amqp(f"container{FORGED}")
        target = Target(f"destination{FORGED}")
        amqp.send(Attach(f"link{FORGED}", 0, False, source=Source(), target=target, initial_delivery_count=0))
        amqp.send(Close(Error("amqp:internal-error", f"close{FORGED}")))
        amqp.read_all()
        for octets in (
            f"GET /path{FORGED} HTTP/1.1\r\nHost: x{FORGED}\r\n\r\n".encode(),
            request("/api/why/message/%0d%0a2026-01-01%20CRITICAL", credentials=basic((f"user{FORGED}", "x"))),
        ):
            web = hostile.http()
            web.write(octets)
            web.read_all()
        metrics(gateway)
    assert gateway.terminate() == 0
    log = gateway.log.read_bytes().decode()
    for said in ("destination", "close"):
        assert f"{said}{FORGED}".encode("unicode_escape").decode() in log, f"the {said} is told of"
    lines = log.splitlines()
    assert all(line.startswith("20") and "2026-01-01" not in line[:10] for line in lines), lines
    assert "\x1b" not in log


# -- memory


def test_open_transactions_share_one_budget(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
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


def test_link_names_share_it(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
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
    """See that some are ended, and that the rest fits then: what was sent is taken over several turns."""
    wait_until(lambda: metrics(gateway)["penstock_holders_ended_total"] > ended_before, "who holds the most is ended")

    def fits() -> bool:
        now = metrics(gateway)
        return now["penstock_connections_held_bytes"] <= now["penstock_connections_held_limit_bytes"]

    wait_until(fits, "what is held fits")


def test_what_one_user_settles_nothing_of_leaves_memory_to_others(start_gateway: StartGateway) -> None:
    """Twice as much as memory takes is sent to a consumer that keeps all it gets; what only memory holds still goes."""
    gateway = start_gateway(hostile_config(memory="8 MiB"))
    gateway.http_login = HONEST
    with Hostiles(gateway) as hostile:
        for number in range(1, 4):
            hoarder = hostile.stomp()
            subscribe = {"id": "1", "destination": f"/queue/plain.{number}", "ack": "client-individual"}
            hoarder.write(frame("SUBSCRIBE", **subscribe, **{"activemq.prefetchSize": "100000"}))
            sender = hostile.stomp()
            for _ in range(28):
                sender.write(frame("SEND", b"x" * 200_000, destination=f"/queue/plain.{number}", receipt="sent"))
                assert sender.answer().head.headers.get("receipt-id") == "sent"
                while hoarder.has_more():
                    hoarder.read()
        honest = hostile.enter_context(closing(honest_stomp(gateway)))
        raw_stomp.subscribe(honest, "/queue/honest.trip", prefetch=10)
        honest.send(SEND, [("destination", "/queue/honest.trip"), ("receipt", "r")])
        assert {honest.next_frame().command for _ in range(2)} == {MESSAGE, RECEIPT}
        now = metrics(gateway)
        limit_bytes = now["penstock_unsettled_limit_bytes"]
        holder = f"user {HOSTILE[0]!r}"
        assert limit_bytes == 8 * MIB // 3
        assert limit_bytes <= now[f'penstock_unsettled_bytes{{holder="{holder}"}}'] <= 1.25 * limit_bytes + MIB
        told = [one["gate"] for one in gateway.get_json("/api/stat")["consumers"]]
        assert any(f"memory: {holder} holds" in gate for gate in told), told


@pytest.mark.parametrize("asked", [{}, {"activemq.maximumPendingMessageLimit": "1000000"}], ids=["plain", "pending"])
def test_what_waits_for_one_user_leaves_memory_to_others(asked: dict[str, str], start_gateway: StartGateway) -> None:
    """Hundreds of subscriptions that take one message each: tiny ones in each of them would fill the memory."""
    gateway = start_gateway(hostile_config(memory="2 MiB"))
    gateway.http_login = HONEST
    with Hostiles(gateway) as hostile:
        for _ in range(20):
            many = hostile.stomp()
            for number in range(40):
                sub = {"id": f"{number}", "destination": "/topic/plain.many", "ack": "client-individual", **asked}
                many.write(frame("SUBSCRIBE", **sub, **{"activemq.prefetchSize": "1"}, receipt=f"{number}"))
            for _ in range(40):
                assert many.answer().command == RECEIPT
        sender = hostile.stomp()
        for _ in range(60):
            sender.write(frame("SEND", b"x", destination="/topic/plain.many", receipt="sent"))
            assert sender.answer().head.headers.get("receipt-id") == "sent"
        honest = hostile.enter_context(closing(honest_stomp(gateway)))
        raw_stomp.subscribe(honest, "/topic/honest.trip", prefetch=10)
        honest.send(SEND, [("destination", "/topic/honest.trip"), ("receipt", "r")])
        assert {honest.next_frame().command for _ in range(2)} == {MESSAGE, RECEIPT}
        now = metrics(gateway)
        holder = f"user {HOSTILE[0]!r}"
        assert now["penstock_pending_limit_bytes"] == 2 * MIB // 16
        assert now[f'penstock_pending_dropped_total{{holder="{holder}"}}'] > 0
        wait_until(lambda: f"octets wait in memory for {holder}" in gateway.log.read_text(), "the log names the user")
        consumer = gateway.get_json("/api/stat")["consumers"][0]["consumer_id"]
        assert f"waited for {holder} were dropped" in gateway.get(f"/api/why/consumer/{consumer}")[1]


@pytest.mark.usefixtures("at_length")
def test_bodies_under_way_end_by_themselves(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
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
    conditions = {one.refusal()[0] for one in stomp}
    assert conditions <= {"timed-out", "connection-memory"}, conditions
    for peer in amqp:
        peer.wait_for(Detach, End, Close)


def test_one_message_to_many_queues_is_bounded(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
    before_bytes = memory_bytes(attacked)
    peer = hostile.stomp()
    many = ",".join(f"/queue/plain.{number}" for number in range(1, 4)) + ",/queue/drop.1" * 200
    peer.write(frame("SEND", b"x" * 250_000, destination=many[:4_000].rpartition(",")[0], receipt="1"))
    peer.answer()
    go_on(trips)
    assert memory_bytes(attacked) - before_bytes < GROWTH_MAX_BYTES
    hostile.empty("plain.1", "plain.2", "plain.3", "drop.1")


@pytest.mark.usefixtures("at_length")
def test_who_reads_nothing_is_given_up(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
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


def test_small_holders_share_it_too(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
    """More than the budget in all, though none of them holds much."""
    limit_bytes = metrics(attacked)["penstock_connections_held_limit_bytes"]
    ended = metrics(attacked)["penstock_holders_ended_total"]
    count = CONNECTIONS_PER_ADDRESS - 5
    size = int(1.5 * limit_bytes) // count
    for _ in range(count):
        peer = hostile.stomp()
        peer.write(
            frame("BEGIN", transaction="t") + frame("SEND", b"x" * size, destination="/queue/plain.1", transaction="t")
        )
    go_on(trips)
    check_budget(attacked, ended)


@pytest.mark.usefixtures("at_length")
def test_what_nobody_reads_shares_it(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
    """Peers that subscribe and read nothing: what the system does not take is little in all."""
    before_bytes = memory_bytes(attacked)
    deaf = [hostile.stomp() for _ in range(30)]
    for peer in deaf:
        peer.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.deaf", ack="auto", receipt="1"))
        peer.answer()
    loud = hostile.stomp()
    for _ in range(100):
        loud.write(frame("SEND", b"x" * 200_000, destination="/topic/plain.deaf", expiration="3000"))
    loud.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    assert loud.answer().head.headers["receipt-id"] == "end"
    go_on(trips)
    now = metrics(attacked)
    assert now["penstock_connections_held_bytes"] <= now["penstock_connections_held_limit_bytes"]
    assert memory_bytes(attacked) - before_bytes < GROWTH_MAX_BYTES


@pytest.mark.parametrize("carrier", ["tcp", "websocket"])
def test_a_frame_under_way_shares_it_before_any_login(
    carrier: str, attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]
) -> None:
    """Whoever has said nothing but the beginning of one frame, or of one message of a WebSocket."""
    before_bytes = memory_bytes(attacked)
    ended = metrics(attacked)["penstock_holders_ended_total"]
    for _ in range(CONNECTIONS_PER_ADDRESS - 5 if carrier == "tcp" else HOLDERS):
        if carrier == "tcp":
            peer = hostile.raw()
            peer.write(protocol_header(SASL_LAYER) + (16_384).to_bytes(4, "big") + b"\x02\x01\0\0" + b"x" * 16_000)
        else:
            peer = hostile.websocket()
            peer.write(b"\x82\xff" + (4 * MIB - 1).to_bytes(8, "big") + b"\0\0\0\0" + protocol_header(SASL_LAYER))
            for _ in range(20):
                peer.write(b"x" * 50_000)
    go_on(trips)
    now = metrics(attacked)
    if carrier == "tcp":
        assert now["penstock_connections_held_bytes"] > 0.5 * MIB, "each holds 16 KiB, which all together may"
    else:
        check_budget(attacked, ended)
    assert memory_bytes(attacked) - before_bytes < GROWTH_MAX_BYTES


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_subscriptions_and_their_selectors_share_it(
    protocol: str, attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]
) -> None:
    before_bytes = memory_bytes(attacked)
    ended = metrics(attacked)["penstock_holders_ended_total"]
    for holder in range(HOLDERS):
        selector = " OR ".join(f"a{number}='{holder}'" for number in range(200))
        if protocol == "stomp":
            subscriber = hostile.stomp()
            for number in range(20):
                said = f"b={number} OR {selector}"
                subscriber.write(frame("SUBSCRIBE", id=f"{number}", destination="/queue/plain.1", selector=said))
        else:
            receiver = hostile.amqp()
            for number in range(20):
                asked = Described(Symbol("apache.org:selector-filter:string"), f"b={number} OR {selector}")
                source = Source("plain.1", filter={Symbol("s"): asked})
                receiver.send(Attach(f"{number}", number, True, source=source, target=Target()))
    go_on(trips)
    check_budget(attacked, ended)
    assert memory_bytes(attacked) - before_bytes < GROWTH_MAX_BYTES


def test_bodies_of_http_share_it(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
    path = "/api/destinations/plain.none/body?priority=10"  # refused once it is read
    first, second = hostile.http(), hostile.http()
    head = request(path, "POST", "", basic(HOSTILE)).replace(b"Content-Length: 0", b"Content-Length: 1048576")
    first.write(head + b"x")
    wait_until(lambda: metrics(attacked)["penstock_requests_held_bytes"] >= 1 << 20, "the body to count")
    second.write(request(path, "POST", "x", basic(HOSTILE)))
    assert b'"condition": "connection-memory"' in second.read_all()
    go_on(trips)
    first.write(b"x" * ((1 << 20) - 1))
    assert b'"condition": "invalid-request"' in first.read_all()
    wait_until(lambda: metrics(attacked)["penstock_requests_held_bytes"] < MIB, "the body to be forgotten")


def test_answers_that_are_read_slowly_share_it(attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]) -> None:
    sender = hostile.stomp()
    for _ in range(4):
        sender.write(frame("SEND", b"\x01" * 250_000, destination="/queue/plain.read", receipt="sent"))
        sender.answer()
    answer_bytes = 4 * 250_000 * len("\\u0001")
    slow = [hostile.http() for _ in range(6)]
    for peer in slow:
        peer.write(request("/api/destinations/plain.read/messages?limit=500", credentials=basic(HOSTILE)))
    for peer in slow:
        assert b"200 OK" in peer.read()
        assert metrics(attacked)["penstock_requests_held_bytes"] < 2.5 * answer_bytes, "one has any size, another waits"
    go_on(trips)
    assert all(len(peer.read_all()) < answer_bytes for peer in slow[:4]), "the others needed their room"
    remover = hostile.http()
    remover.write(
        request("/api/delete", "POST", '{"destination": "queue://plain.read", "force": true}', basic(HOSTILE))
    )
    assert b"200 OK" in remover.read_all()
