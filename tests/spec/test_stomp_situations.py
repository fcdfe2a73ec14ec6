"""Situations that a STOMP gateway meets, as a client sees them; the list is section 18 of the project's wire notes.

Acknowledgements and transactions alone are in tests/unit/protocols/stomp/session.

What this version of Penstock does not do (wildcards, browsers, durable subscriptions, selectors, temporary
destinations, transformations) it must refuse in plain words, or pass through untouched; never do by half.
"""

from __future__ import annotations

import pytest

from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.stomp_gateway import Peer, StompGateway, connected

VERSIONS = ["1.0", "1.1", "1.2"]


def through_a_queue(version: str, body: bytes, **headers: str) -> tuple[Peer, bytes, dict[str, str]]:
    """Send one message and receive it; return the peer, and what came."""
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/q", "auto")
    peer.publish("/queue/q", body, **headers)
    (message,) = peer.messages()
    return peer, message.body, message.headers


# -- bodies


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "body",
    ["\U0001f30a ärger €".encode(), b"", b"\n\n", b"line\r\nline", b"x" * 3_000_000, bytes(range(1, 256))],
    ids=["four-octet", "empty", "ends", "crlf", "large", "octets"],
)
def test_bodies_as_text(version: str, body: bytes) -> None:
    assert through_a_queue(version, body)[1] == body


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("body", [b"\0", b"a\0b\0\0", bytes(range(256)), b""], ids=["nul", "nuls", "octets", "empty"])
def test_bodies_with_a_content_length(version: str, body: bytes) -> None:
    headers = {"content-length": str(len(body))}
    assert through_a_queue(version, body, **headers)[1] == body


# -- headers


@pytest.mark.parametrize("value", [" leading", "trailing ", "\ttabs\t", " "])
@pytest.mark.parametrize("version", VERSIONS)
def test_blanks_around_values(version: str, value: str) -> None:
    seen = through_a_queue(version, b"", colour=value)[2]["colour"]
    assert seen == (value.strip(" \t") if version == "1.0" else value)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_escapes_in_names_and_values(version: str) -> None:
    headers = {"a:b\nc\\d": "v:w\nx\\n"}
    seen = through_a_queue(version, b"", **headers)[2]
    assert seen["a:b\nc\\d"] == "v:w\nx\\n"


def test_a_carriage_return_has_an_escape_in_1_2() -> None:
    assert through_a_queue("1.2", b"", colour="a\rb")[2]["colour"] == "a\rb"


def test_under_1_0_a_backslash_is_a_backslash() -> None:
    assert through_a_queue("1.0", b"", path="c:\\temp\\new")[2]["path"] == "c:\\temp\\new"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_of_repeated_headers_the_first_counts(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/q", "auto")
    peer.send_octets(b"SEND\ndestination:/queue/q\ndestination:/queue/other\ncolour:red\ncolour:blue\n\n\0")
    assert peer.messages()[0]["colour"] == "red"


def test_connected_is_never_escaped() -> None:
    peer = StompGateway(settings=SessionSettings(server="Pen:stock\\1")).open()
    peer.send("CONNECT", accept_version="1.2", host="x")
    assert b"\nserver:Pen:stock\\1\n" in peer.octets


def test_no_common_version() -> None:
    peer = StompGateway().open()
    peer.send("STOMP", accept_version="0.9,2.1")
    error = peer.error()
    assert error["version"] == "1.0,1.1,1.2"
    assert (error["message"], error["condition"]) == ("no supported protocol version", "unsupported-version")
    assert b"0.9,2.1" in error.body


# -- connecting


def test_telnet_line_ends() -> None:
    peer = StompGateway().open()
    peer.send_octets(b"\r\n\r\nCONNECT\r\naccept-version:1.2\r\nhost:x\r\n\r\n\0\r\n")
    assert peer.take()[0].command == "CONNECTED"
    peer.send_octets(b"SUBSCRIBE\r\nid:1\r\ndestination:/queue/q\r\nack:auto\r\n\r\n\0\r\n")
    peer.send_octets(b"SEND\r\ndestination:/queue/q\r\ncolour:red\r\n\r\nhi\r\n\0\r\n")
    (message,) = peer.messages()
    assert (message.body, message["colour"]) == (b"hi\r\n", "red")


@pytest.mark.parametrize(
    ("version", "login", "passcode"),
    [("", "ann", "secret"), ("1.1", " ann\t", " secret "), ("1.2", " ann\t", " secret ")],
    ids=["no version", "1.1", "1.2"],
)
def test_blanks_are_part_of_a_passcode_from_1_1_on(version: str, login: str, passcode: str) -> None:
    """STOMP 1.2, "Value Encoding": only 1.0 trims headers; a passcode that ends with a blank never logged in."""
    gateway = StompGateway(settings=SessionSettings(needs_login=True))
    peer = gateway.open()
    accepts = f"accept-version:{version}\n" if version else ""
    peer.send_octets(f"CONNECT\n{accepts}host:x\nlogin: ann\t\npasscode: secret \n\n\0".encode())
    assert peer.link.credentials == [(login, passcode)]


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_send_or_subscribe_that_is_refused_names_its_receipt(version: str, command: str) -> None:
    peer = StompGateway().connect(version)
    peer.send(command, destination="/forbidden/q", id="1", receipt="r7")
    (error,) = peer.take()
    assert (error.command, error["receipt-id"]) == ("ERROR", "r7")
    assert peer.is_closed == (version != "1.0")


# -- subscribing


@pytest.mark.parametrize("version", VERSIONS)
def test_missing_id(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.send("SUBSCRIBE", destination="/queue/q", receipt="s")
    (answer,) = peer.take()
    expected = ("RECEIPT", b"") if version == "1.0" else ("ERROR", b"SUBSCRIBE needs a header id")
    assert (answer.command, answer.body) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_same_id_twice(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/a")
    peer.subscribe("/queue/b", receipt="second")
    (error,) = peer.take()
    assert (error.command, error["receipt-id"]) == ("ERROR", "second")
    assert b"subscription 's' already exists" in error.body


@pytest.mark.parametrize("destination", ["/queue/orders.*", "/topic/orders.>", "/topic/#", "/topic/*.new"])
def test_a_wildcard_can_be_received_from_and_not_sent_to(destination: str) -> None:
    gateway, peer = connected()
    peer.subscribe(destination)
    kind = destination.split("/")[1]
    gateway.connect().send("SEND", b"hello", destination=f"/{kind}/orders.new")
    (message,) = peer.take()
    assert message.body == b"hello"
    peer.send("SEND", b"x", destination=destination)
    error = peer.error()
    assert error["condition"] == "invalid-destination"
    assert b"do not name one destination" in error.body


@pytest.mark.parametrize("destination", ["/queue/q", "/topic/t"])
def test_an_invalid_selector_is_told_with_its_position(destination: str) -> None:
    gateway, peer = connected()
    peer.subscribe(destination, selector="colour = 'red' and and", receipt="s")
    error = peer.error()
    assert (error["condition"], error["receipt-id"]) == ("invalid-selector", "s")
    assert b"character 20: found 'and'" in error.body
    assert gateway.broker.inspect().consumers == []


@pytest.mark.parametrize("destination", ["/queue/q", "/topic/t"])
@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        ("age > 30", [b"31"]),
        ("age = 30", [b"30"]),
        ("vip = TRUE", [b"30"]),
        ("size > 1.5 and size < 1.8", [b"31"]),
        ("name like 'A%'", [b"30", b"31"]),
        ("missing is null", [b"30", b"31"]),
    ],
)
def test_selectors_compare_texts_as_activemq_does(destination: str, selector: str, taken: list[bytes]) -> None:
    gateway = StompGateway()
    producer, consumer = gateway.connect(), gateway.connect()
    consumer.subscribe(destination, "auto", selector=selector)
    producer.publish(destination, b"30", age="30", vip="true", size="1.9", name="Ann")
    producer.publish(destination, b"31", age="31", vip="false", size="1.75", name="Abe")
    assert consumer.bodies() == taken


def test_the_highest_of_the_two_selector_headers_counts() -> None:
    peer = StompGateway().subscriber("/queue/q", "auto", selector="a = 1", **{"activemq.selector": "a = 2"})
    peer.publish("/queue/q", b"1", a="1")
    peer.publish("/queue/q", b"2", a="2")
    assert peer.bodies() == [b"2"]


# -- acknowledging


def three(ack: str) -> tuple[Peer, list[str], list[str]]:
    """Return a peer that holds three messages, their ack ids and their message ids."""
    peer = StompGateway().subscriber("/queue/q", ack)
    peer.publish("/queue/q", b"1", b"2", b"3")
    messages = peer.messages()
    return peer, [message["ack"] for message in messages], [message["message-id"] for message in messages]


def left(peer: Peer) -> int:
    return peer.gateway.stats("q").depth


@pytest.mark.parametrize(("ack", "expected"), [("client", 1), ("client-individual", 2)])
@pytest.mark.parametrize("by", ["ack", "message-id"])
def test_cumulative_and_individual_by_either_id(ack: str, expected: int, by: str) -> None:
    peer, acks, ids = three(ack)
    peer.send("ACK", id=acks[1] if by == "ack" else ids[1])
    assert left(peer) == expected


def test_of_another_connection_s_message() -> None:
    peer, acks, ids = three("client-individual")
    for name in (acks[0], ids[0]):
        thief = peer.gateway.connect()
        thief.send("ACK", id=name)
        assert thief.error()["condition"] == "invalid-header"
    assert left(peer) == 3


# -- properties


def test_a_user_id_cannot_be_forged() -> None:
    assert "JMSXUserID" not in through_a_queue("1.2", b"", JMSXUserID="root")[2]


@pytest.mark.parametrize(
    "headers",
    [
        {"AMQ_SCHEDULED_DELAY": "0"},
        {"transformation": "jms-map-json"},
        {"app-id": "shop"},
        {"content-type": "application/json"},
        {"JMSXGroupID": "g", "JMSXGroupSeq": "3"},
    ],
    ids=["no delay", "transformation", "app-id", "content type", "group"],
)
def test_headers_for_receivers_pass_through_untouched(headers: dict[str, str]) -> None:
    seen = through_a_queue("1.2", b"{}", **headers)[2]
    assert {name: seen[name] for name in headers} == headers
