"""The dialect ``activemq`` of a STOMP listener: what ActiveMQ does, where we do otherwise (docs/reference/stomp.md)."""

from __future__ import annotations

import pytest

from protocols.errors import FrameError
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.escapes import read_block
from protocols.stomp.codec.versions import VERSIONS as VERSIONS_BY_NAME
from protocols.stomp.mapping.dialects import ACTIVEMQ, DIALECTS
from protocols.stomp.session.settings import SessionSettings
from tests.support.engine.engine_world import address
from tests.support.protocols.stomp_gateway import Peer, StompGateway

DLQ = "ActiveMQ.DLQ"
SETTINGS = SessionSettings(dialect=ACTIVEMQ)
VERSIONS = ["1.0", "1.1", "1.2"]
KEEPING = [(SETTINGS, version) for version in VERSIONS] + [(SessionSettings(), "1.0")]  # an error ends no connection


def nack(peer: Peer, message: dict[str, str], version: str, **headers: str) -> None:
    named = {"id": message["ack"]} if version == "1.2" else {"message_id": message["message-id"], "subscription": "s"}
    peer.send("NACK", **named, **headers)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("command", "headers", "condition"),
    [
        ("SEND", {"destination": "/queue/a..b"}, "invalid-destination"),
        ("SEND", {"destination": "/queue/q", "transaction": "unknown"}, "transaction-error"),
        ("COMMIT", {"transaction": "unknown"}, "transaction-error"),
        ("ACK", {"id": "7", "message_id": "7"}, "invalid-header"),
        ("SUBSCRIBE", {"destination": "/queue/q", "id": "1", "selector": "a ="}, "invalid-selector"),
        ("UNSUBSCRIBE", {"id": "unknown"}, "invalid-header"),
    ],
)
def test_a_wrong_request_keeps_the_connection(
    version: str, command: str, headers: dict[str, str], condition: str
) -> None:
    peer = StompGateway(settings=SETTINGS).connect(version)
    peer.send(command, **headers, receipt="r1")
    (error,) = peer.take()
    assert (error.command, error["condition"], error["receipt-id"]) == ("ERROR", condition, "r1")
    peer.publish("/queue/q", b"goes on", receipt="r2")
    assert peer.receipts() == ["r2"]


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_a_list_with_a_part_that_is_refused_leaves_no_temporary_destination(command: str) -> None:
    gateway = StompGateway(settings=SETTINGS)
    peer = gateway.connect()
    peer.subscribe("/temp-queue/old", "auto", id="1")
    peer.send(command, destination="/temp-queue/old,/temp-queue/new,/temp-topic/new,/queue/a..b", id="2")
    assert peer.take()[0]["condition"] == "invalid-destination"
    assert gateway.temporary_count() == 1
    peer.publish("/temp-queue/old,/temp-queue/new", b"goes on")
    assert peer.bodies() == [b"goes on"]


@pytest.mark.parametrize(
    ("settings", "version", "octets"),
    [(*kept, octets) for kept in KEEPING for octets in (b"NONSENSE\n\n\0", b"SEND\n:no name\n\n\0", b"CONNECT\n\n\0")]
    + [(SessionSettings(), "1.0", b"SEND\nno colon\n\n\0")],
)
def test_a_broken_protocol_still_ends_it(settings: SessionSettings, version: str, octets: bytes) -> None:
    peer = StompGateway(settings=settings).connect(version)
    peer.send_octets(octets)
    peer.error()


@pytest.mark.parametrize(("settings", "version"), KEEPING)
def test_an_error_leaves_in_the_order_of_the_frames(settings: SessionSettings, version: str) -> None:
    gateway = StompGateway(settings=settings)
    gateway.syncs = False
    peer = gateway.connect(version)
    peer.publish("/queue/q", b"1", persistent="true", receipt="r1")
    peer.send("ABORT", transaction="unknown", receipt="r2")
    assert peer.octets == b""
    gateway.sync()
    assert [frame.command for frame in peer.take()] == ["RECEIPT", "ERROR"]


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_nack_is_a_dead_letter_of_exactly_that_message(version: str, ack: str) -> None:
    gateway = StompGateway(settings=SETTINGS)
    peer = gateway.connect(version)
    peer.subscribe("/queue/q", ack)
    peer.publish("/queue/q", b"1", b"2", b"3", persistent="true")
    nack(peer, peer.messages()[1].headers, version)
    assert (gateway.stats(DLQ).depth, gateway.stats("q").in_flight) == (1, 2)
    gateway.advance(60_000)
    assert peer.messages() == []


@pytest.mark.parametrize(
    ("headers", "dead", "comes_after_ms"),
    [({"reason": "no"}, 1, -1), ({"requeue": "true"}, 0, 0), ({"delay": "300"}, 0, 300)],
)
def test_a_nack_that_says_what_it_wants_gets_it(headers: dict[str, str], dead: int, comes_after_ms: int) -> None:
    gateway = StompGateway(settings=SETTINGS)
    peer = gateway.subscriber("/queue/q")
    peer.publish("/queue/q", b"1", persistent="true")
    nack(peer, peer.messages()[0].headers, "1.2", **headers)
    assert gateway.queue_names() == (["q", DLQ] if dead else ["q"])
    if comes_after_ms > 0:
        gateway.advance(comes_after_ms - 1)
        assert peer.messages() == []
        gateway.advance(1)
    assert len(peer.messages()) == (0 if dead else 1)


def test_a_nack_inside_a_transaction_takes_effect_with_it() -> None:
    gateway = StompGateway(settings=SETTINGS)
    peer = gateway.subscriber("/queue/q", "client")
    peer.publish("/queue/q", b"1", b"2", persistent="true")
    peer.send("BEGIN", transaction="t")
    nack(peer, peer.messages()[1].headers, "1.2", transaction="t")
    assert not gateway.has_queue(DLQ)
    peer.send("COMMIT", transaction="t")
    assert (gateway.stats(DLQ).depth, gateway.stats("q").in_flight) == (1, 1)


def test_nack_of_automatic_deliveries_is_an_error_that_keeps_the_connection() -> None:
    peer = StompGateway(settings=SETTINGS).subscriber("/queue/q", "auto")
    peer.publish("/queue/q", b"1")
    (message,) = peer.messages()
    peer.send("NACK", id=message["message-id"])
    (error,) = peer.take()
    assert error.command == "ERROR" and not peer.is_closed


def test_who_waits_too_long_keeps_the_connection_and_the_next_waits_for_itself() -> None:
    gateway = StompGateway(
        address("q", full__address_full_policy="BLOCK", full__max_size_bytes=100, full__block_timeout_ms=5_000),
        settings=SETTINGS,
    )
    peer = gateway.connect()
    peer.publish("/queue/q", b"x" * 200)
    peer.publish("/queue/q", b"1", receipt="first")
    gateway.advance(1_000)
    peer.publish("/queue/q", b"2", receipt="second")
    gateway.advance(4_000)
    (error,) = peer.take()
    assert (error["condition"], error["receipt-id"]) == ("address-full", "first")
    assert "queue://q" in gateway.reason(peer), "the second waits on"
    gateway.advance(4_999)
    assert peer.take() == []
    consumer = gateway.subscriber("/queue/q", "auto")
    assert peer.receipts() == ["second"]
    assert consumer.bodies() == [b"x" * 200, b"2"]


def test_a_commit_that_waits_too_long_is_rolled_back_and_the_connection_goes_on() -> None:
    gateway = StompGateway(
        address("q", full__address_full_policy="BLOCK", full__max_size_bytes=100, full__block_timeout_ms=5_000),
        settings=SETTINGS,
    )
    peer = gateway.connect()
    peer.publish("/queue/q", b"x" * 200)
    peer.send("BEGIN", transaction="t")
    peer.publish("/queue/q", b"1", transaction="t")
    peer.send("COMMIT", transaction="t", receipt="commit")
    gateway.advance(5_000)
    (error,) = peer.take()
    assert (error["condition"], error["receipt-id"]) == ("address-full", "commit")
    assert gateway.stats("q").depth == 1
    peer.send_confirmed("BEGIN", transaction="t")


def test_connected_names_what_clients_choose_their_dialect_by() -> None:
    assert ACTIVEMQ.server.startswith("ActiveMQ/5.")
    assert list(DIALECTS) == ["penstock", "activemq"]


def reading(version: str) -> Decoder:
    decoder = Decoder(is_lenient=True)
    decoder.version = VERSIONS_BY_NAME[version]
    return decoder


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("colour", ["", "colour:red\n", "colour:a\\cb\n"])
def test_a_header_line_without_a_colon_is_a_header_without_a_value(version: str, colour: str) -> None:
    decoder = reading(version)
    decoder.receive_data(f"SEND\ndestination:/queue/q\n{colour}flag\n\nbody\0".encode() * 3)
    for _ in range(3):
        frame = decoder.next_frame()
        assert frame is not None
        assert frame.head.headers["flag"] == ""
        assert frame.head.block.endswith(b"flag:\n")
    decoder.receive_data(b"SEND\n:red\n\n\0")
    with pytest.raises(FrameError, match="has an empty name"):
        decoder.next_frame()


@pytest.mark.parametrize(
    ("version", "written", "read"),
    [
        ("1.0", r"a\cb\nc\\d", "a:b\nc\\d"),
        ("1.0", r"a\rb\tc", r"a\rb\tc"),
        ("1.1", r"a\rb\tc\c", r"a\rb\tc:"),
        ("1.2", r"a\rb\tc\c", "a\rb\\tc:"),
        ("1.2", "\\", "\\"),
        ("1.1", r"\\n", r"\n"),
    ],
)
def test_a_backslash_that_begins_no_escape_stands_for_itself(version: str, written: str, read: str) -> None:
    decoder = reading(version)
    decoder.receive_data(f"SEND\nfield:{written}\nreceipt:{written}\n\n\0".encode() * 2)
    for _ in range(2):
        frame = decoder.next_frame()
        assert frame is not None
        assert frame.head.headers["field"] == read
        assert dict(read_block(frame.head.block)) == {"field": read}, "others read it by the rules of 1.2"


@pytest.mark.parametrize(
    ("version", "written", "echoed"),
    [
        ("1.0", r"a\cb\t", r"a\cb\t"),
        ("1.1", r"a\cb\t", r"a\cb\\t"),
        ("1.1", r"a\r", r"a\\r"),
        ("1.2", r"a\r\t", r"a\r\\t"),
        ("1.2", "\\", r"\\"),
    ],
)
def test_a_receipt_is_echoed_with_escapes_that_every_reader_knows(version: str, written: str, echoed: str) -> None:
    """As ActiveMQ answers; under 1.0, where nothing has escapes, as it stood."""
    peer = StompGateway(settings=SETTINGS).connect(version)
    for _ in range(2):
        peer.send_octets(f"SEND\ndestination:/queue/q\nreceipt:{written}\n\n\0".encode())
        peer.send_octets(f"ABORT\ntransaction:unknown\nreceipt:{written}\n\n\0".encode())
    assert peer.octets.count(f"\nreceipt-id:{echoed}\n".encode()) == 4


def test_a_session_of_the_dialect_reads_so() -> None:
    peer = StompGateway(settings=SETTINGS).connect("1.1")
    peer.subscribe("/queue/q", "auto")
    peer.send_octets(b"SEND\ndestination:/queue/q\nflag\nfield:a\\tb\n\nbody\0")
    (message,) = peer.messages()
    assert (message["flag"], message["field"]) == ("", "a\\tb")


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize(
    ("version", "left_out", "missing"),
    [
        ("1.2", "id", b"header id"),
        ("1.1", "subscription", b"header subscription"),
        ("1.1", "message_id", b"message-id"),
    ],
)
def test_an_answer_has_the_headers_that_its_version_requires(
    version: str, left_out: str, missing: bytes, command: str
) -> None:
    gateway = StompGateway(settings=SETTINGS)
    peer = gateway.connect(version)
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1")
    (message,) = peer.messages()
    named = {"id": message.headers.get("ack", ""), "message_id": message["message-id"], "subscription": "s"}
    named.pop(left_out)
    if version == "1.1":
        named.pop("id")
    peer.send(command, **named)
    (error,) = peer.take()
    assert (error.command, error["condition"]) == ("ERROR", "invalid-header")
    assert missing in error.body
    assert gateway.stats("q").in_flight == 1


def test_the_second_connection_of_a_client_id_is_refused() -> None:
    gateway = StompGateway(settings=SETTINGS)
    first = gateway.connect(client_id="shop")
    second = gateway.open()
    second.send("CONNECT", accept_version="1.2", host="test", client_id="shop")
    error = second.error()
    assert error["condition"] == "client-id-in-use"
    assert b"'shop' is in use by another connection" in error.body
    gateway.connect(client_id="other")
    gateway.connect()
    gateway.connect()
    first.send("DISCONNECT")
    gateway.connect(client_id="shop").vanish()
    gateway.connect(client_id="shop")


@pytest.mark.parametrize("selector", ["", "  "])
def test_a_blank_selector_is_refused(selector: str) -> None:
    peer = StompGateway(settings=SETTINGS).subscriber("/queue/q", selector=selector)
    (error,) = peer.take()
    assert error["condition"] == "invalid-selector"
    assert StompGateway().subscriber("/queue/q", selector=selector, receipt="r").receipts() == ["r"]


@pytest.mark.parametrize(
    ("headers", "priority", "expires"),
    [
        ({"priority": "10", "expires": "-5"}, "9", "0"),
        ({"priority": "-1", "expires": "0"}, "0", "0"),
        ({"priority": "2147483647", "expires": str(2**63 - 1)}, "9", str(2**63 - 1)),
    ],
)
def test_priority_and_expires_are_clamped(headers: dict[str, str], priority: str, expires: str) -> None:
    peer = StompGateway(settings=SETTINGS).subscriber("/queue/q", "auto")
    peer.publish("/queue/q", b"1", **headers)
    (message,) = peer.messages()
    assert (message["priority"], message["expires"]) == (priority, expires)


@pytest.mark.parametrize(
    "headers", [{"priority": "high"}, {"priority": str(2**31)}, {"expires": "-"}, {"expires": str(2**63)}]
)
def test_what_is_no_number_is_not_clamped(headers: dict[str, str]) -> None:
    peer = StompGateway(settings=SETTINGS).connect()
    peer.publish("/queue/q", b"1", **headers)
    (error,) = peer.take()
    assert error["condition"] == "invalid-option"


@pytest.mark.parametrize("headers", [{"priority": "10"}, {"expires": "-5"}])
def test_otherwise_a_number_out_of_its_range_is_an_error(headers: dict[str, str]) -> None:
    peer = StompGateway().connect()
    peer.publish("/queue/q", b"1", **headers)
    assert peer.error()["condition"] == "invalid-option"
