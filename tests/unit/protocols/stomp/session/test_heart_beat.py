"""What time asks of a connection."""

from __future__ import annotations

import pytest

from protocols.peer_times import NO_FRAME
from protocols.stomp.session.handshake import Terms
from protocols.stomp.session.heart_beat import HeartBeat
from protocols.stomp.session.settings import SessionSettings


def heartbeat(receive_ms: int = 0, send_ms: int = 0) -> HeartBeat:
    terms = Terms()
    terms.receive_ms = receive_ms
    terms.send_ms = send_ms
    return HeartBeat(SessionSettings(frame_time_ms=400, connect_time_ms=600), terms, 1_000)


@pytest.mark.parametrize(("now_ms", "fault"), [(1_599, ""), (1_600, "no CONNECT within 600 ms")])
def test_connect_has_a_limit(now_ms: int, fault: str) -> None:
    assert heartbeat().fault(now_ms, is_open=False, is_reading_paused=False) == fault


def test_a_connected_client_without_heart_beats_may_be_silent_for_ever() -> None:
    assert heartbeat().fault(10**9, is_open=True, is_reading_paused=False) == ""


@pytest.mark.parametrize(("now_ms", "is_fault"), [(1_200, False), (1_201, True)])
def test_silence_is_allowed_for_twice_the_interval(now_ms: int, is_fault: bool) -> None:
    fault = heartbeat(receive_ms=100).fault(now_ms, is_open=True, is_reading_paused=False)
    assert fault == ("no heart-beat for 201 ms; 100 ms were agreed, 200 ms are allowed" if is_fault else "")


def test_nothing_is_held_against_a_client_that_we_do_not_read() -> None:
    slow = heartbeat(receive_ms=100)
    slow.frame_seen(1, 1_000)
    assert slow.fault(50_000, is_open=True, is_reading_paused=True) == ""
    slow.reading_resumed(50_000)
    assert slow.fault(50_200, is_open=True, is_reading_paused=False) == ""
    assert slow.fault(50_201, is_open=True, is_reading_paused=False) != ""


def test_a_frame_has_a_limit_from_its_first_octets_on() -> None:
    slow = heartbeat()
    slow.frame_seen(1, 1_000)
    slow.frame_seen(1, 1_300)  # the same frame goes on
    assert slow.fault(1_399, is_open=True, is_reading_paused=False) == ""
    assert slow.fault(1_400, is_open=True, is_reading_paused=False) == "a frame took longer than 400 ms"
    slow.frame_seen(NO_FRAME, 1_400)
    assert slow.fault(9_000, is_open=True, is_reading_paused=False) == ""


def test_the_limit_of_a_frame_starts_anew_when_we_read_again() -> None:
    slow = heartbeat()
    slow.frame_seen(1, 1_000)
    slow.reading_resumed(9_000)
    assert slow.fault(9_399, is_open=True, is_reading_paused=False) == ""
    assert slow.fault(9_400, is_open=True, is_reading_paused=False) != ""


def test_resuming_between_frames_begins_none() -> None:
    idle = heartbeat()
    idle.reading_resumed(9_000)
    assert idle.fault(90_000, is_open=True, is_reading_paused=False) == ""


@pytest.mark.parametrize(("now_ms", "must_send"), [(1_079, False), (1_080, True)])
def test_we_send_a_little_early(now_ms: int, must_send: bool) -> None:
    assert heartbeat(send_ms=100).must_send(now_ms) == must_send


def test_nobody_gets_heart_beats_who_did_not_ask() -> None:
    assert not heartbeat().must_send(10**9)


@pytest.mark.parametrize(
    ("receive_ms", "send_ms", "interval_ms"),
    [(0, 0, 1_000), (60_000, 60_000, 1_000), (2_000, 0, 400), (2_000, 500, 100), (100, 100, 20), (50, 50, 20)],
)
def test_how_often_we_look(receive_ms: int, send_ms: int, interval_ms: int) -> None:
    assert heartbeat(receive_ms, send_ms).interval_ms(is_open=True, now_ms=1_000) == interval_ms


@pytest.mark.parametrize(("now_ms", "interval_ms"), [(1_000, 600), (1_500, 100), (1_599, 20), (1_700, 20)])
def test_before_connect_we_look_when_its_time_is_over(now_ms: int, interval_ms: int) -> None:
    assert heartbeat().interval_ms(is_open=False, now_ms=now_ms) == interval_ms


def test_before_connect_nobody_is_looked_at_more_than_once_a_second() -> None:
    patient = HeartBeat(SessionSettings(connect_time_ms=60_000), Terms(), 1_000)
    assert patient.interval_ms(is_open=False, now_ms=1_000) == 1_000


def test_each_frame_has_the_limit_for_itself() -> None:
    steady = heartbeat()
    for number in range(1, 9):
        steady.frame_seen(number, 1_000 + 300 * number)
        assert steady.fault(1_299 + 300 * number, is_open=True, is_reading_paused=False) == ""
    assert steady.fault(3_800, is_open=True, is_reading_paused=False) == "a frame took longer than 400 ms"
