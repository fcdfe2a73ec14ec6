"""What time asks of a connection."""

from __future__ import annotations

import pytest

from protocols.stomp.session.handshake import Terms
from protocols.stomp.session.heart_beat import HeartBeat
from protocols.stomp.session.settings import SessionSettings


def heartbeat(receive_ms: int = 0, send_ms: int = 0) -> HeartBeat:
    terms = Terms()
    terms.receive_ms = receive_ms
    terms.send_ms = send_ms
    return HeartBeat(SessionSettings(frame_time_ms=400, connect_time_ms=600), terms, 1_000)


def test_a_connected_client_without_heart_beats_may_be_silent_for_ever() -> None:
    assert heartbeat().fault(10**9, is_open=True, is_reading_paused=False) == ""


@pytest.mark.parametrize(("now_ms", "is_fault"), [(1_200, False), (1_201, True)])
def test_silence_is_allowed_for_twice_the_interval(now_ms: int, is_fault: bool) -> None:
    fault = heartbeat(receive_ms=100).fault(now_ms, is_open=True, is_reading_paused=False)
    assert fault == ("no heart-beat for 201 ms; 100 ms were agreed, 200 ms are allowed" if is_fault else "")


def test_resuming_between_frames_begins_none() -> None:
    idle = heartbeat()
    idle.reading_resumed(9_000)
    assert idle.fault(90_000, is_open=True, is_reading_paused=False) == ""


@pytest.mark.parametrize(("now_ms", "must_send"), [(1_079, False), (1_080, True)])
def test_we_send_a_little_early(now_ms: int, must_send: bool) -> None:
    assert heartbeat(send_ms=100).must_send(now_ms) == must_send


@pytest.mark.parametrize(("now_ms", "interval_ms"), [(1_000, 600), (1_500, 100), (1_599, 20), (1_700, 20)])
def test_before_connect_we_look_when_its_time_is_over(now_ms: int, interval_ms: int) -> None:
    assert heartbeat().interval_ms(is_open=False, now_ms=now_ms) == interval_ms


def test_before_connect_nobody_is_looked_at_more_than_once_a_second() -> None:
    patient = HeartBeat(SessionSettings(connect_time_ms=60_000), Terms(), 1_000)
    assert patient.interval_ms(is_open=False, now_ms=1_000) == 1_000


@pytest.mark.parametrize(
    ("receive_ms", "send_ms", "now_ms", "next_ms"),
    [
        (0, 0, 1_000, 1_000),
        (0, 1_000, 1_000, 800),
        (0, 1_000, 1_500, 300),
        (0, 1_000, 1_799, 200),  # not at each turn of a socket that takes nothing
        (500, 0, 1_000, 1_000),
        (500, 0, 1_600, 401),
        (500, 1_000, 1_600, 200),
        (60_000, 60_000, 1_000, 1_000),
    ],
)
def test_a_connection_is_looked_at_when_something_is_due(
    receive_ms: int, send_ms: int, now_ms: int, next_ms: int
) -> None:
    assert heartbeat(receive_ms, send_ms).interval_ms(True, now_ms) == next_ms
