"""A session's states: connecting, logging in, errors and what they close, leaving."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from config.model import ConnectionDefaults
from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.stomp_gateway import StompGateway, connected

CONNECT_1_2 = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"


# -- connecting


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_both_words_for_connect(command: str) -> None:
    peer = StompGateway().open()
    peer.send(command, accept_version="1.2", host="x")
    (connected,) = peer.take()
    assert connected.command == "CONNECTED"
    assert connected.headers == {"version": "1.2", "session": "1", "server": "Penstock", "heart-beat": "0,0"}


def test_defaults_of_the_connection_hold_for_its_subscriptions() -> None:
    peer = StompGateway().connect(**{"activemq.prefetchPolicy.queuePrefetch": "2"})
    peer.subscribe("/queue/a", id="a")
    peer.subscribe("/queue/b", id="b", **{"activemq.prefetchSize": "1"})
    peer.publish("/queue/a", b"1", b"2", b"3")
    peer.publish("/queue/b", b"4", b"5")
    assert peer.bodies() == [b"1", b"2", b"4"]


def test_the_listener_s_defaults_hold_where_the_connection_says_nothing() -> None:
    defaults = ConnectionDefaults(MappingProxyType({"prefetch.queue_prefetch": 1}), client_id="of the listener")
    gateway = StompGateway(settings=SessionSettings(defaults=defaults))
    peer = gateway.connect()
    assert peer.session.describe()["client_id"] == "of the listener"
    assert gateway.connect(client_id="mine").session.describe()["client_id"] == "mine"
    peer.subscribe("/queue/a")
    peer.publish("/queue/a", b"1", b"2")
    assert peer.bodies() == [b"1"]


def test_a_misspelt_header_of_connect_is_told() -> None:
    headers = {"activemq.prefetchPolicy.queueprefetch": "2"}
    assert "did you mean" in StompGateway().connect(**headers).link.warnings[0]
    peer = StompGateway(settings=SessionSettings(is_strict=True)).open()
    peer.send("CONNECT", **headers)
    assert peer.error()["condition"] == "invalid-option"


def test_connected_echoes_request_id_and_receipt_unescaped() -> None:
    peer = StompGateway().open()
    peer.send_octets(b"CONNECT\naccept-version:1.2\nrequest-id:r:1\nreceipt:a\\cb:c\n\n\0")
    assert b"\nresponse-id:r:1\n" in peer.octets
    assert b"\nreceipt-id:a\\cb:c\n" in peer.octets


def test_frames_pipelined_behind_connect_are_taken_in_its_version() -> None:
    peer = StompGateway().open()
    peer.send_octets(
        CONNECT_1_2
        + b"SUBSCRIBE\nid:a\\cb\ndestination:/queue/q\nreceipt:1\n\n\0"
        + b"SEND\ndestination:/queue/q\nreceipt:2\n\nhello\0"
    )
    frames = peer.take()
    assert [frame.command for frame in frames] == ["CONNECTED", "RECEIPT", "MESSAGE", "RECEIPT"]
    assert frames[2]["subscription"] == "a:b"


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE", "DISCONNECT", "ACK"])
def test_anything_before_connect(command: str) -> None:
    peer = StompGateway().open()
    peer.send(command, id="1", destination="/queue/q")
    error = peer.error()
    assert error["condition"] == "unexpected-frame"
    assert error.body == f"the first frame is {command}; allowed are CONNECT and STOMP".encode()


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_second_connect(version: str, command: str) -> None:
    peer = StompGateway().connect(version)
    peer.send(command, accept_version=version)
    assert peer.error().body == f"{command} is not expected from a connected client".encode()


@pytest.mark.parametrize("command", ["CONNECTED", "MESSAGE", "RECEIPT", "ERROR"])
def test_commands_that_only_servers_send(command: str) -> None:
    peer = StompGateway().connect()
    peer.send(command)
    assert peer.error()["condition"] == "unexpected-frame"


def test_before_connect_little_is_taken() -> None:
    gateway = StompGateway()
    peer = gateway.open()
    peer.send_octets(b"CONNECT\n" + b"".join(b"h%d:x\n" % number for number in range(101)) + b"\n\0")
    assert peer.error()["condition"] == "frame-too-large"
    peer = gateway.connect()
    peer.send_confirmed("SEND", destination="/queue/q", **{f"h{number}": "x" for number in range(101)})


def test_the_settings_name_the_server_and_the_limits() -> None:
    gateway = StompGateway(settings=SessionSettings(server="Turbine", body_bytes=10))
    peer = gateway.open()
    peer.send_octets(CONNECT_1_2)
    assert peer.take()[0]["server"] == "Turbine"
    peer.send("SEND", b"x" * 11, destination="/queue/q")
    assert peer.error()["condition"] == "frame-too-large"


# -- logging in

LOGIN = SessionSettings(needs_login=True)


def test_a_login_is_checked_before_anything_is_read() -> None:
    peer = StompGateway(settings=LOGIN).open()
    peer.send_octets(
        b"CONNECT\naccept-version:1.2\nlogin:ann\npasscode:se:cret\n\n\0SEND\ndestination:q\nreceipt:1\n\n\0"
    )
    assert peer.link.credentials == [("ann", "se:cret")]
    assert not peer.link.is_reading
    assert peer.octets == b""
    peer.send_octets(b"SEND\ndestination:q\nreceipt:2\n\n\0")
    peer.answer_login(is_allowed=True)
    assert [frame.command for frame in peer.take()] == ["CONNECTED", "RECEIPT", "RECEIPT"]
    assert peer.link.is_reading


def test_a_checked_login_brings_its_groups() -> None:
    settings = SessionSettings(needs_login=True, groups={"ann": frozenset({"admins"})})
    gateway = StompGateway(settings=settings)
    peer = gateway.open()
    peer.send("CONNECT", accept_version="1.2", login="ann", passcode="secret")
    peer.answer_login(is_allowed=True)
    (client,) = gateway.connections()
    assert client.groups == {"admins"}


def test_a_login_that_nobody_checks_brings_no_groups() -> None:
    gateway = StompGateway(settings=SessionSettings(groups={"ann": frozenset({"admins"})}))
    gateway.open().send("CONNECT", accept_version="1.2", login="ann", passcode="secret")
    (client,) = gateway.connections()
    assert client.groups == frozenset()


def test_a_wrong_password() -> None:
    peer = StompGateway(settings=LOGIN).open()
    peer.send("CONNECT", accept_version="1.2", login="ann", passcode="wrong")
    peer.answer_login(is_allowed=False)
    error = peer.error()
    assert (error["condition"], error["message"]) == ("login-refused", "login refused")
    assert b"wrong" not in error.body and b"ann" not in error.body
    assert all("wrong" not in warning for warning in peer.link.warnings)


def test_an_answer_that_comes_too_late_is_nothing() -> None:
    gateway = StompGateway(settings=LOGIN)
    peer = gateway.open()
    peer.send("CONNECT", login="ann")
    peer.vanish()
    peer.answer_login(is_allowed=True)
    assert peer.octets == b""
    assert gateway.broker.inspect().connections == 0


def test_without_configured_users_any_credentials_do() -> None:
    peer = StompGateway().connect(login="anybody", passcode="anything")
    assert peer.link.credentials == []


def test_who_it_is_stands_in_the_consumer_s_record() -> None:
    peer = StompGateway().connect(login="ann", client_id="c1")
    assert peer.session.describe() == {"address": "192.0.2.1:40001", "client_id": "c1", "login": "ann"}


# -- errors


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_an_error_closes_and_names_the_frame_s_receipt(version: str) -> None:
    gateway, peer = connected(version)
    peer.send("SEND", destination="/nowhere", receipt="r:1")
    error = peer.error()
    assert (error["receipt-id"], error["message"]) == ("r:1", "invalid destination")
    assert error["content-type"] == "text/plain"
    assert b"does not begin with /queue/, /topic/, " in error.body
    assert error.has_length
    assert peer.link.warnings == [f"invalid-destination: {error.body.decode()}"]
    assert gateway.broker.inspect().connections == 0


def test_an_error_without_a_receipt_names_none() -> None:
    peer = StompGateway().connect()
    peer.send("SEND", destination="/nowhere")
    assert "receipt-id" not in peer.error().headers


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("SEND", {"destination": "/nowhere"}),
        ("SEND", {}),
        ("SUBSCRIBE", {"destination": "/queue/q", "ack": "never"}),
        ("SUBSCRIBE", {"destination": "/queue/q?x=1"}),
        ("UNSUBSCRIBE", {"id": "unknown"}),
        ("ACK", {"message-id": "ID:unknown"}),
        ("ACK", {}),
        ("BEGIN", {}),
        ("COMMIT", {"transaction": "unknown"}),
        ("ABORT", {"transaction": "unknown"}),
        ("SEND", {"destination": "q", "transaction": "unknown"}),
    ],
)
def test_under_1_0_a_wrong_request_keeps_the_connection(command: str, headers: dict[str, str]) -> None:
    peer = StompGateway().connect("1.0")
    peer.send(command, **headers, receipt="r1")
    (error,) = peer.take()
    assert (error.command, error["receipt-id"]) == ("ERROR", "r1")
    assert not peer.is_closed
    peer.send_confirmed("SEND", destination="/queue/q")


def test_frames_before_a_broken_one_are_taken_and_those_behind_it_are_not() -> None:
    gateway, peer = connected()
    good = b"SEND\ndestination:/queue/q\nreceipt:%d\n\n\0"
    peer.send_octets(good % 1 + b"BOGUS\n\n\0" + good % 2)
    frames = peer.take()
    assert [(frame.command, frame.headers.get("receipt-id")) for frame in frames] == [("RECEIPT", "1"), ("ERROR", None)]
    assert gateway.stats("q").enqueued == 1


def test_an_error_takes_nothing_but_its_own_connection_down() -> None:
    gateway = StompGateway()
    good, bad = gateway.connect(), gateway.connect()
    bad.send_octets(b"\xff\xff\n\n\0")
    bad.error()
    good.publish("/queue/q", b"x", receipt="1")
    assert good.receipts() == ["1"]


def test_an_error_gives_back_what_was_held_and_blames_as_a_lost_connection() -> None:
    gateway, peer = connected()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1")
    peer.take()
    peer.send_octets(b"BOGUS\n\n\0")
    heir = gateway.subscriber("/queue/q")
    (message,) = heir.messages()
    assert (message["redelivered"], message["JMSXDeliveryCount"]) == ("true", "2")


def test_an_error_waits_for_earlier_confirmations() -> None:
    gateway = StompGateway()
    gateway.syncs = False
    peer = gateway.connect()
    peer.publish("/queue/q", b"1", persistent="true", receipt="r1")
    peer.send_octets(b"BOGUS\n\n\0")
    gateway.advance(1_000)
    assert peer.octets == b"" and not peer.is_closed
    gateway.sync()
    assert [frame.command for frame in peer.take()] == ["RECEIPT", "ERROR"]
    assert peer.is_closed


def test_an_error_does_not_wait_for_ever() -> None:
    gateway = StompGateway(settings=SessionSettings(ending_time_ms=2_000))
    gateway.syncs = False
    peer = gateway.connect()
    peer.publish("/queue/q", b"1", persistent="true", receipt="r1")
    peer.send_octets(b"BOGUS\n\n\0")
    gateway.advance(1_900)
    assert peer.octets == b""
    gateway.advance(200)
    assert peer.error()["condition"] == "malformed-frame"  # and no RECEIPT: nothing was durable


# -- leaving


def test_a_disconnect_without_a_receipt_just_closes() -> None:
    gateway, peer = connected()
    peer.send("DISCONNECT")
    assert (peer.octets, peer.is_closed) == (b"", True)
    assert gateway.broker.inspect().connections == 0


def test_what_comes_after_disconnect_is_ignored() -> None:
    gateway, peer = connected()
    peer.send_octets(b"DISCONNECT\nreceipt:bye\n\n\0SEND\ndestination:/queue/q\n\nx\0BOGUS\n\n\0")
    assert peer.receipts() == ["bye"]
    assert not gateway.has_queue("q")
    gateway.syncs = False
    slow = gateway.connect()
    slow.publish("/queue/q", b"1", persistent="true")
    slow.send("DISCONNECT", receipt="bye")
    slow.send_octets(b"BOGUS\n\n\0")
    gateway.sync()
    assert slow.receipts() == ["bye"]


def test_an_orderly_disconnect_counts_nothing() -> None:
    gateway, peer = connected()
    peer.subscribe("/queue/q")
    peer.publish("/queue/q", b"1")
    peer.send("DISCONNECT")
    heir = gateway.subscriber("/queue/q")
    (message,) = heir.messages()
    assert (message["redelivered"], message["JMSXDeliveryCount"]) == ("true", "1")


def test_a_vanished_peer_leaves_nothing_behind() -> None:
    gateway, peer = connected()
    peer.subscribe("/queue/q")
    peer.subscribe("/topic/t", id="t")
    peer.send("BEGIN", transaction="x")
    peer.send("SEND", destination="/queue/q", transaction="x")
    peer.vanish()
    stats = gateway.broker.inspect()
    assert (stats.connections, stats.consumers, gateway.stats("q").enqueued) == (0, [], 0)


def test_the_gateway_stops_politely() -> None:
    gateway = StompGateway()
    gateway.syncs = False
    peer = gateway.subscriber("/queue/held", receipt="s")
    peer.publish("/queue/held", b"1", persistent="true", receipt="r1")
    peer.take()
    peer.session.shut_down()
    gateway.settle()
    assert not peer.is_closed
    gateway.sync()
    receipt, error = peer.take()
    assert (receipt["receipt-id"], error["message"]) == ("r1", "the gateway is shutting down")
    assert peer.is_closed
    heir = gateway.subscriber("/queue/held")
    gateway.sync()
    (message,) = heir.messages()
    assert message["JMSXDeliveryCount"] == "1", "the client did nothing wrong"


def test_stopping_a_session_that_has_ended_adds_nothing() -> None:
    gateway, peer = connected()
    peer.send_octets(b"BOGUS\n\n\0")
    peer.error()
    peer.session.shut_down()
    gateway.settle()
    assert peer.octets == b""


def test_limits_of_transactions_come_from_the_settings() -> None:
    settings = SessionSettings(transactions=1, transaction_actions=1, transaction_bytes=10)
    gateway = StompGateway(settings=settings)
    for frames in (
        [("BEGIN", b"", {"transaction": "y"})],
        [("SEND", b"", {"destination": "q", "transaction": "x"})] * 2,
        [("SEND", b"01234567890", {"destination": "q", "transaction": "x"})],
    ):
        peer = gateway.connect()
        peer.send("BEGIN", transaction="x")
        for command, body, headers in frames:
            peer.send(command, body, **headers)
        error = peer.error()
        assert error["condition"] == "transaction-error"
        assert b"limit" in error.body


def test_a_password_is_not_kept_once_it_has_been_checked() -> None:
    peer = StompGateway(settings=LOGIN).open()
    peer.send("CONNECT", accept_version="1.2", login="ann", passcode="secret")
    peer.answer_login(is_allowed=True)
    assert (peer.session.handshake.terms.passcode, peer.session.handshake.frame) == ("", None)
