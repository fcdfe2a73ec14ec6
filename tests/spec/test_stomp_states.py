"""Each row of the table of a STOMP connection's states, driven by a client: the state after it is what the table says.

Sources: STOMP 1.2, "Connecting" and "Graceful Shutdown"; docs/reference/semantics.md, "Full addresses".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from engine.values.errors import SlowConsumer
from protocols.session.states import (
    ADMIT,
    AUTHENTICATING,
    AUTHENTICATING_LAST,
    CHECK,
    CLOSED,
    CONNECTING,
    DISCONNECTING,
    FAIL,
    FAILING,
    HANG_UP,
    LEAVE,
    LEAVING,
    LOSE,
    OPEN,
    PAUSE,
    PAUSED,
    RESUME,
    WAIT,
    advance,
    is_open,
)
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.states import TRANSITIONS
from tests.support.protocols.stomp_gateway import Peer, StompGateway

CONNECT: Final = b"CONNECT\naccept-version:1.2\nlogin:ann\npasscode:secret\n\n\0"
SEND: Final = b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\nbody\0"
LARGE: Final = b"SEND\ndestination:/queue/q\npersistent:true\n\n" + 4_000 * b"x" + b"\0"
DISCONNECT: Final = b"DISCONNECT\nreceipt:last\n\n\0"


def feed(peer: Peer, octets: bytes) -> None:
    """Let octets come without ending the turn."""
    peer.session.receive_data(octets, peer.gateway.clock.now_ms)


def hang_up(peer: Peer) -> None:
    peer.session.input_ended()


def fail(peer: Peer) -> None:
    peer.session.give_up(SlowConsumer("too slow"))


def lose(peer: Peer) -> None:
    peer.session.connection_lost()


def connect(peer: Peer) -> None:
    feed(peer, CONNECT)


def answer(peer: Peer) -> None:
    peer.session.authenticated(is_allowed=True)


def leave(peer: Peer) -> None:
    feed(peer, DISCONNECT)


def pause(peer: Peer) -> None:
    peer.gateway.store.fail("disk full")
    feed(peer, LARGE)


def wait(peer: Peer) -> None:
    peer.gateway.store.fail("disk full")
    feed(peer, SEND)
    leave(peer)


def heal(peer: Peer) -> None:
    peer.gateway.store.heal()
    peer.session.admit()


# How a connection comes into each state.
WAYS: Final[dict[int, tuple[Callable[[Peer], None], ...]]] = {
    CONNECTING: (),
    AUTHENTICATING: (connect,),
    AUTHENTICATING_LAST: (connect, hang_up),
    OPEN: (connect,),
    PAUSED: (connect, pause),
    DISCONNECTING: (connect, wait),
    LEAVING: (connect, leave),
    FAILING: (connect, fail),
    CLOSED: (connect, lose),
}
# What brings each event about; the others can come in any state.
CAUSES: Final[dict[tuple[int, int], Callable[[Peer], None]]] = {
    (CONNECTING, CHECK): connect,
    (CONNECTING, ADMIT): connect,
    (AUTHENTICATING, ADMIT): answer,
    (AUTHENTICATING_LAST, ADMIT): answer,
    (OPEN, PAUSE): pause,
    (OPEN, WAIT): wait,
    (OPEN, LEAVE): leave,
    (PAUSED, RESUME): heal,
    (DISCONNECTING, LEAVE): heal,
}
ANYWHERE: Final = {HANG_UP: hang_up, FAIL: fail, LOSE: lose}
NEEDS_LOGIN: Final = (AUTHENTICATING, AUTHENTICATING_LAST)


def arrived(state: int, needs_login: bool) -> Peer:
    gateway = StompGateway(settings=SessionSettings(needs_login=needs_login, block_park_bytes=3_000))
    peer = gateway.open()
    for step in WAYS[state]:
        step(peer)
    assert peer.session.state == state
    return peer


@pytest.mark.parametrize(("before", "event"), TRANSITIONS)
def test_a_connection_moves_as_the_table_says(before: int, event: int) -> None:
    peer = arrived(before, needs_login=before in NEEDS_LOGIN or event == CHECK)
    (CAUSES.get((before, event)) or ANYWHERE[event])(peer)
    expected = TRANSITIONS[before, event]
    if before == AUTHENTICATING_LAST and event == ADMIT:
        expected = TRANSITIONS[expected, HANG_UP]  # what it sent has been taken, and no more comes
    assert peer.session.state == expected
    assert peer.session.is_ending == (expected >= LEAVING)


@pytest.mark.parametrize("state", [state for state in WAYS if state not in (CONNECTING, OPEN)])
def test_frames_are_taken_only_in_the_two_states_that_read(state: int) -> None:
    peer = arrived(state, needs_login=state in NEEDS_LOGIN)
    before = len(peer.gateway.queue_names())
    feed(peer, b"SEND\ndestination:/queue/another\n\n\0")
    assert (peer.session.state, len(peer.gateway.queue_names())) == (state, before)


def test_every_state_is_reached_and_every_event_used() -> None:
    assert {before for before, _ in TRANSITIONS} | set(TRANSITIONS.values()) == set(WAYS)
    assert {event for _, event in TRANSITIONS} == {event for _, event in CAUSES} | set(ANYWHERE)
    assert all((state, LOSE) in TRANSITIONS for state in WAYS if state != CLOSED)


def test_once_it_ends_it_can_neither_fail_nor_leave_again() -> None:
    ending = [(state, event) for state in WAYS if state >= LEAVING for event in (FAIL, LEAVE, ADMIT, PAUSE, RESUME)]
    assert not set(ending) & set(TRANSITIONS)
    with pytest.raises(AssertionError, match="no transition"):
        advance(TRANSITIONS, LEAVING, FAIL)


def test_between_connected_and_the_end_it_is_open() -> None:
    assert [state for state in WAYS if is_open(state)] == [OPEN, PAUSED, DISCONNECTING]
