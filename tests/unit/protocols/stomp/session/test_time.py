"""Heart-beats both ways, and limits of time."""

from __future__ import annotations

import pytest

from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.stomp_gateway import StompGateway, connected


def test_heart_beats_come_within_the_interval_from_the_start() -> None:
    gateway = StompGateway()
    gateway.advance(1)  # the tick of the accepted connection has passed when CONNECT comes
    peer = gateway.connect(heart_beat="0,500")
    silence_ms = 0
    beats = 0
    for _ in range(500):
        gateway.advance(10)
        silence_ms += 10
        if peer.octets:
            assert peer.octets == b"\n"
            peer.octets = b""
            assert silence_ms <= 500
            beats += 1
            silence_ms = 0
    assert beats >= 10


def test_whoever_did_not_ask_gets_none() -> None:
    for headers in ({}, {"heart-beat": "1000,0"}):
        gateway = StompGateway(settings=SessionSettings(heart_beat_grace=1_000.0))
        peer = gateway.connect(**headers)
        gateway.advance(60_000)
        assert peer.octets == b""


def test_messages_count_as_heart_beats() -> None:
    gateway, peer = connected(heart_beat="0,1000")
    peer.subscribe("/queue/q", "auto")
    other = gateway.connect()
    for _ in range(20):
        gateway.advance(400)
        other.publish("/queue/q", b"x")
    assert len(peer.bodies()) == 20
    assert peer.octets == b""


def test_no_heart_beat_is_pushed_into_a_socket_that_is_full() -> None:
    gateway, peer = connected(heart_beat="0,1000")
    peer.subscribe("/queue/q", "auto")
    peer.is_stuck = True
    peer.publish("/queue/q", b"x")
    peer.take()
    gateway.advance(10_000)
    assert peer.octets == b""


def test_a_silent_client_is_dropped_after_twice_its_interval() -> None:
    gateway, peer = connected(heart_beat="1000,0")
    gateway.advance(2_000)
    assert not peer.is_closed
    gateway.advance(500)
    error = peer.error()
    assert (error["condition"], error["message"]) == ("timed-out", "timed out")
    assert b"1000 ms were agreed, 2000 ms are allowed" in error.body


def test_the_grace_is_configurable() -> None:
    gateway = StompGateway(settings=SessionSettings(heart_beat_grace=1.0))
    peer = gateway.connect(heart_beat="1000,0")
    gateway.advance(1_500)
    peer.error()


@pytest.mark.parametrize("octets", [b"\n", b"\r\n", b"\0", b"BEGIN\ntransaction:x\n\n\0ABORT\ntransaction:x\n\n\0"])
def test_any_octet_keeps_it_alive(octets: bytes) -> None:
    gateway, peer = connected(heart_beat="1000,0")
    for _ in range(10):
        gateway.advance(1_900)
        peer.send_octets(octets)
    assert not peer.is_closed


def test_a_client_that_cannot_be_read_is_not_blamed_for_its_silence() -> None:
    gateway, peer = connected(heart_beat="1000,0")
    peer.subscribe("/queue/q", "auto")
    peer.is_stuck = True
    peer.publish("/queue/q", b"x")
    gateway.advance(60_000)
    assert not peer.is_closed
    peer.drain()
    gateway.advance(1_900)
    assert not peer.is_closed
    gateway.advance(700)
    assert peer.is_closed


def test_a_dropped_client_s_messages_go_to_others_at_once() -> None:
    gateway, peer = connected(heart_beat="1000,0")
    peer.subscribe("/queue/q")
    other = gateway.connect()
    other.publish("/queue/q", b"x")
    gateway.advance(2_500)
    other.subscribe("/queue/q")
    (message,) = other.messages()
    assert (message["redelivered"], message["JMSXDeliveryCount"]) == ("true", "2")


def test_connect_has_thirty_seconds() -> None:
    gateway = StompGateway()
    idle = gateway.open()
    gateway.advance(29_900)
    assert not idle.is_closed
    gateway.advance(100)
    assert idle.error().body == b"no CONNECT within 30000 ms"


def test_octets_that_are_no_connect_do_not_help() -> None:
    gateway = StompGateway()
    idle = gateway.open()
    for _ in range(30):
        gateway.advance(1_000)
        if not idle.is_closed:
            idle.send_octets(b"\n")
    assert idle.error()["condition"] == "timed-out"


def test_a_frame_has_thirty_seconds_however_slowly_it_comes() -> None:
    gateway, peer = connected()
    for octet in b"SEND\ndestination:/queue/q\n\n" + b"x" * 100:
        if peer.is_closed:
            break
        peer.send_octets(bytes([octet]))
        gateway.advance(1_000)
    assert peer.error().body == b"a frame took longer than 30000 ms"
    assert not gateway.has_queue("q")


def test_slow_but_in_time() -> None:
    gateway, peer = connected()
    for _ in range(3):
        for octet in b"SEND\nreceipt:1\ndestination:q\n\n\0":
            peer.send_octets(bytes([octet]))
            gateway.advance(800)
    assert peer.receipts() == ["1"] * 3


def test_waiting_for_a_login_is_limited_too() -> None:
    gateway = StompGateway(settings=SessionSettings(needs_login=True))
    peer = gateway.open()
    peer.send("CONNECT", accept_version="1.2", login="ann")
    gateway.advance(30_000)
    assert peer.error()["condition"] == "timed-out"


@pytest.mark.parametrize("cut", [1, 5, 17, 30])
def test_a_steady_producer_is_never_late_though_each_read_ends_inside_a_frame(cut: int) -> None:
    gateway, peer = connected()
    frame = b"SEND\ndestination:/queue/q\n\nbody\0"
    peer.send_octets(frame[:cut])
    for _ in range(60):
        gateway.advance(1_000)
        peer.send_octets(frame[cut:] + frame[:cut])
    assert not peer.is_closed, "a frame took a second each"
    for octet in frame[cut:-1]:
        gateway.advance(5_000)
        if not peer.is_closed:
            peer.send_octets(bytes([octet]))
    gateway.advance(30_000)
    assert peer.error().body == b"a frame took longer than 30000 ms"
