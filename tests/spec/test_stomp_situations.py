"""Situations that a STOMP gateway meets, as a client sees them; the list is section 18 of the project's wire notes.

What this version of Penstock does not do (wildcards, browsers, durable subscriptions, selectors, temporary
destinations, transformations) it must refuse in plain words, or pass through untouched; never do by half.
"""

from __future__ import annotations

import pytest

from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.session.settings import SessionSettings
from tests.support.fakes import START_WALL_MS
from tests.support.protocols.stomp_gateway import Peer, StompGateway

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


@pytest.mark.parametrize("length", ["-1", "x", "", "1e3", "1.0", "0x10"])
def test_a_content_length_that_is_none(length: str) -> None:
    peer = StompGateway().connect()
    peer.send_octets(f"SEND\ndestination:/queue/q\ncontent-length:{length}\n\nabc\0".encode())
    assert peer.error()["condition"] == "malformed-frame"


def test_a_content_length_beyond_the_limit_is_refused_before_the_body() -> None:
    peer = StompGateway(settings=SessionSettings(frame_limits=FrameLimits(body_bytes=1_000))).connect()
    peer.send_octets(b"SEND\ndestination:/queue/q\ncontent-length:1001\n\n")
    assert peer.error()["condition"] == "frame-too-large"


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


@pytest.mark.parametrize(("version", "escape"), [("1.1", "\\r"), ("1.1", "\\t"), ("1.2", "\\t")])
def test_unknown_escapes(version: str, escape: str) -> None:
    peer = StompGateway().connect(version)
    peer.send_octets(f"SEND\ndestination:/queue/q\nx:{escape}\n\n\0".encode())
    assert peer.error()["condition"] == "malformed-frame"


def test_under_1_0_a_backslash_is_a_backslash() -> None:
    assert through_a_queue("1.0", b"", path="c:\\temp\\new")[2]["path"] == "c:\\temp\\new"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_of_repeated_headers_the_first_counts(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/q", "auto")
    peer.send_octets(b"SEND\ndestination:/queue/q\ndestination:/queue/other\ncolour:red\ncolour:blue\n\n\0")
    assert peer.messages()[0]["colour"] == "red"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_s_own_message_id_is_ignored(version: str) -> None:
    assert through_a_queue(version, b"", **{"message-id": "mine"})[2]["message-id"] == "ID:c0ffee00-3-n1"


def test_connected_is_never_escaped() -> None:
    peer = StompGateway(settings=SessionSettings(server="Pen:stock\\1")).open()
    peer.send("CONNECT", accept_version="1.2", host="x")
    assert b"\nserver:Pen:stock\\1\n" in peer.octets


@pytest.mark.parametrize(
    ("accepted", "version"),
    [(None, "1.0"), ("1.0", "1.0"), ("1.1,1.0", "1.1"), ("1.0,1.1,1.2", "1.2"), ("1.2,9.9", "1.2")],
)
def test_version_fallback(accepted: str | None, version: str) -> None:
    peer = StompGateway().open()
    peer.send("CONNECT", **({} if accepted is None else {"accept-version": accepted}))
    assert peer.take()[0]["version"] == version


def test_no_common_version() -> None:
    peer = StompGateway().open()
    peer.send("STOMP", accept_version="0.9,2.1")
    error = peer.error()
    assert error["version"] == "1.0,1.1,1.2"
    assert b"0.9,2.1" in error.body


# -- connecting


def test_missing_connect() -> None:
    peer = StompGateway().open()
    peer.send("SEND", destination="/queue/q")
    assert peer.error()["condition"] == "unexpected-frame"


def test_second_connect() -> None:
    peer = StompGateway().connect()
    peer.send("CONNECT", accept_version="1.2")
    assert peer.error()["condition"] == "unexpected-frame"


@pytest.mark.parametrize("command", [b"INVALID", b"connect", b"SEND ", b" SEND"])
def test_invalid_command(command: bytes) -> None:
    peer = StompGateway().connect()
    peer.send_octets(command + b"\ndestination:/queue/q\n\n\0")
    assert peer.error()["condition"] == "malformed-frame"


def test_telnet_line_ends() -> None:
    peer = StompGateway().open()
    peer.send_octets(b"\r\n\r\nCONNECT\r\naccept-version:1.2\r\nhost:x\r\n\r\n\0\r\n")
    assert peer.take()[0].command == "CONNECTED"
    peer.send_octets(b"SUBSCRIBE\r\nid:1\r\ndestination:/queue/q\r\nack:auto\r\n\r\n\0\r\n")
    peer.send_octets(b"SEND\r\ndestination:/queue/q\r\ncolour:red\r\n\r\nhi\r\n\0\r\n")
    (message,) = peer.messages()
    assert (message.body, message["colour"]) == (b"hi\r\n", "red")


@pytest.mark.parametrize("value", ["5000", "x,y", "-5,5"])
def test_three_kinds_of_invalid_heart_beat(value: str) -> None:
    peer = StompGateway().open()
    peer.send("CONNECT", accept_version="1.2", host="x", heart_beat=value)
    error = peer.error()
    assert (error["condition"], value.encode() in error.body) == ("invalid-header", True)


def test_an_idle_connection_is_dropped_and_heart_beats_keep_it_open() -> None:
    gateway = StompGateway()
    idle = gateway.connect(heart_beat="1000,0")
    alive = gateway.connect(heart_beat="1000,0")
    for _ in range(5):
        gateway.advance(1_000)
        alive.send_octets(b"\n")
    assert idle.error()["condition"] == "timed-out"
    assert not alive.is_closed


def test_wrong_credentials() -> None:
    peer = StompGateway(settings=SessionSettings(needs_login=True)).open()
    peer.send("CONNECT", accept_version="1.2", host="x", login="ann", passcode="guess")
    peer.answer_login(is_allowed=False)
    assert peer.error()["condition"] == "login-refused"


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


def test_receipt_before_the_first_message() -> None:
    peer = StompGateway().connect()
    peer.publish("/queue/q", b"waiting")
    peer.subscribe("/queue/q", receipt="s")
    assert [frame.command for frame in peer.take()] == ["RECEIPT", "MESSAGE"]


@pytest.mark.parametrize("version", VERSIONS)
def test_missing_id(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.send("SUBSCRIBE", destination="/queue/q", receipt="s")
    assert peer.take()[0].command == ("RECEIPT" if version == "1.0" else "ERROR")


@pytest.mark.parametrize("version", VERSIONS)
def test_same_id_twice(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/a")
    peer.subscribe("/queue/b", receipt="second")
    (error,) = peer.take()
    assert (error.command, error["receipt-id"]) == ("ERROR", "second")


@pytest.mark.parametrize("version", VERSIONS)
def test_unsubscribe_of_an_unknown_id(version: str) -> None:
    peer = StompGateway().connect(version)
    peer.send("UNSUBSCRIBE", id="nobody")
    assert peer.take()[0]["condition"] == "invalid-header"


@pytest.mark.parametrize("destination", ["/queue/orders.*", "/topic/orders.>", "/topic/#", "/topic/*.new"])
def test_a_wildcard_can_be_received_from_and_not_sent_to(destination: str) -> None:
    gateway = StompGateway()
    peer = gateway.connect()
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
    gateway = StompGateway()
    peer = gateway.connect()
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
    gateway = StompGateway()
    peer = gateway.connect()
    peer.subscribe("/queue/q", "auto", selector="a = 1", **{"activemq.selector": "a = 2"})
    peer.publish("/queue/q", b"1", a="1")
    peer.publish("/queue/q", b"2", a="2")
    assert peer.bodies() == [b"2"]


def test_prefetch_1_with_client_ack() -> None:
    peer = StompGateway().connect()
    peer.subscribe("/queue/q", "client", **{"activemq.prefetchSize": "1"})
    peer.publish("/queue/q", b"1", b"2")
    (first,) = peer.messages()
    peer.send("ACK", id=first["ack"])
    assert peer.bodies() == [b"2"]


# -- acknowledging


def three(ack: str) -> tuple[Peer, list[str], list[str]]:
    """Return a peer that holds three messages, their ack ids and their message ids."""
    peer = StompGateway().connect()
    peer.subscribe("/queue/q", ack)
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


def test_mixed_ack_and_nack() -> None:
    peer, acks, _ = three("client-individual")
    peer.send("ACK", id=acks[0])
    peer.send("NACK", id=acks[1])
    peer.send("ACK", id=acks[2])
    peer.gateway.advance(1_000)
    (again,) = peer.messages()
    assert (again.body, again["redelivered"]) == (b"2", "true")


def test_twice() -> None:
    peer, acks, _ = three("client-individual")
    peer.send("ACK", id=acks[0])
    peer.send("ACK", id=acks[0], receipt="again")
    assert peer.error()["receipt-id"] == "again"


def test_out_of_order() -> None:
    peer, acks, _ = three("client-individual")
    for ack in reversed(acks):
        peer.send("ACK", id=ack)
    assert left(peer) == 0


def test_of_another_connection_s_message() -> None:
    peer, acks, ids = three("client-individual")
    for name in (acks[0], ids[0]):
        thief = peer.gateway.connect()
        thief.send("ACK", id=name)
        assert thief.error()["condition"] == "invalid-header"
    assert left(peer) == 3


def test_for_a_message_never_delivered() -> None:
    peer, _, _ = three("client-individual")
    peer.send("ACK", id="999")
    assert peer.error()["condition"] == "invalid-header"


def test_after_an_aborted_transaction() -> None:
    peer, acks, _ = three("client-individual")
    peer.send("BEGIN", transaction="t")
    peer.send("ACK", id=acks[0], transaction="t")
    peer.send("ABORT", transaction="t")
    peer.send("ACK", id=acks[0], receipt="r")
    assert peer.receipts() == ["r"]
    assert left(peer) == 2


@pytest.mark.parametrize("destination", ["/queue/q", "/topic/t"])
def test_in_a_transaction(destination: str) -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    peer.subscribe(destination)
    peer.publish(destination, b"1")
    peer.send("BEGIN", transaction="t")
    peer.send("ACK", id=peer.messages()[0]["ack"], transaction="t", receipt="a")
    peer.send("COMMIT", transaction="t", receipt="c")
    assert peer.receipts() == ["a", "c"]
    assert sum(one.depth for one in gateway.broker.inspect().destinations) == 0


# -- transactions


def test_over_several_destinations() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    peer.send("BEGIN", transaction="t")
    for destination in ("/queue/a", "/queue/b", "/topic/c"):
        peer.publish(destination, b"x", transaction="t")
    assert [one.enqueued for one in gateway.broker.inspect().destinations] == [0, 0, 0]
    peer.send("COMMIT", transaction="t")
    assert [one.enqueued for one in gateway.broker.inspect().destinations] == [1, 1, 1]


@pytest.mark.parametrize("command", ["COMMIT", "ABORT"])
def test_unknown_transaction(command: str) -> None:
    peer = StompGateway().connect()
    peer.send(command, transaction="t")
    assert peer.error()["condition"] == "transaction-error"


def test_transaction_twice_begun() -> None:
    peer = StompGateway().connect()
    peer.send("BEGIN", transaction="t")
    peer.send("BEGIN", transaction="t")
    assert peer.error()["condition"] == "transaction-error"


def test_transaction_left_open_at_disconnect() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    peer.send("BEGIN", transaction="t")
    peer.publish("/queue/q", b"x", transaction="t")
    peer.send("DISCONNECT", receipt="bye")
    assert peer.receipts() == ["bye"]
    assert gateway.stats("q").enqueued == 0


def test_error_in_the_middle_of_a_transaction() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    peer.send("BEGIN", transaction="t")
    peer.publish("/queue/q", b"x", transaction="t")
    peer.send_octets(b"SEND\nthis is no header\n\n\0")
    peer.error()
    assert gateway.stats("q").enqueued == 0


# -- properties


def test_persistent_default() -> None:
    assert "persistent" not in through_a_queue("1.2", b"")[2]


def test_priority_default() -> None:
    assert through_a_queue("1.2", b"")[2]["priority"] == "4"


def test_expiry() -> None:
    gateway = StompGateway()
    peer = gateway.connect()
    peer.publish("/queue/q", b"old", expires=str(START_WALL_MS + 10))
    peer.publish("/queue/q", b"new")
    gateway.advance(20)
    peer.subscribe("/queue/q", "auto")
    assert peer.bodies() == [b"new"]


def test_reply_to_within_and_across_connections() -> None:
    gateway = StompGateway()
    asking, answering = gateway.connect(), gateway.connect("1.1")
    asking.subscribe("/queue/answers", "auto")
    answering.subscribe("/queue/questions", "auto")
    asking.publish("/queue/questions", b"?", **{"reply-to": "/queue/answers", "correlation-id": "c7"})
    (question,) = answering.messages()
    answering.publish(question["reply-to"], b"!", **{"correlation-id": question["correlation-id"]})
    (answer,) = asking.messages()
    assert (answer.body, answer["correlation-id"]) == (b"!", "c7")


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_exchanges_are_refused_by_name(command: str) -> None:
    peer = StompGateway().connect()
    peer.send(command, destination="/exchange/x/y", id="1")
    error = peer.error()
    assert (error["condition"], b"/exchange/x/y" in error.body) == ("invalid-destination", True)


def test_group_headers_pass_through() -> None:
    seen = through_a_queue("1.1", b"", JMSXGroupID="g", JMSXGroupSeq="3")[2]
    assert (seen["JMSXGroupID"], seen["JMSXGroupSeq"]) == ("g", "3")


def test_a_user_id_cannot_be_forged() -> None:
    assert "JMSXUserID" not in through_a_queue("1.2", b"", JMSXUserID="root")[2]


def test_content_type_passes_through() -> None:
    assert (
        through_a_queue("1.2", b"{}", **{"content-type": "application/json"})[2]["content-type"] == "application/json"
    )


@pytest.mark.parametrize(
    "headers",
    [{"AMQ_SCHEDULED_DELAY": "0"}, {"transformation": "jms-map-json"}, {"app-id": "shop"}],
    ids=["no delay", "transformation", "app-id"],
)
def test_headers_without_a_meaning_here_pass_through_untouched(headers: dict[str, str]) -> None:
    seen = through_a_queue("1.2", b"{}", **headers)[2]
    assert {name: seen[name] for name in headers} == headers
