"""One socket and its session: octets both ways, back-pressure, an end that the peer gets to see."""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import Callable

import pytest

from gateway.connections.admission import Admission, Place
from gateway.connections.connection import FULL_READ_BYTES, Connection
from gateway.connections.orderly_close import LINGER_ROUNDS, OrderlyClose
from gateway.connections.session_socket import LOGIN_LOOK_S, SessionSocket
from gateway.loop.engine_loop import LOGIN_ENDS_A_TURN
from protocols.detect import AMQP_1_0
from protocols.input_share import INPUT_STEPS
from protocols.peer_socket import LoggedIn
from tests.support.connection_world import ConnectionWorld, Session, Transport
from tests.support.engine.broker_view import BrokerView

EXPIRED = "the token has expired: connect again with a new one"


@pytest.fixture
async def world() -> ConnectionWorld:
    return ConnectionWorld()


async def test_octets_in_and_out_once_a_turn(world: ConnectionWorld) -> None:
    world.connection.data_received(b"a")
    world.connection.data_received(b"b")
    assert world.transport.written == []
    world.turn()
    assert world.transport.written == [b"ab"]
    assert world.session.log == [], "nothing has changed for the session"
    assert (world.transport.limit, world.connection.peer()) == (4096, "192.0.2.7:5555")


async def test_a_session_that_has_held_itself_back_is_told_what_has_left(world: ConnectionWorld) -> None:
    world.session.is_output_full = True
    world.connection.data_received(b"a")
    world.turn()
    assert world.session.log == ["written, open"]


async def test_a_turn_without_octets_writes_nothing(world: ConnectionWorld) -> None:
    world.connection.touch()
    world.turn()
    assert (world.transport.written, world.session.log) == ([], [])


async def test_a_socket_that_takes_nothing_is_not_read_either(world: ConnectionWorld) -> None:
    world.connection.pause_writing()
    assert world.transport.taken() == ["pause"]
    world.connection.data_received(b"a")
    world.turn()
    assert world.session.log == ["written, paused"]
    world.connection.resume_writing()
    assert world.transport.taken() == ["resume"]
    assert world.session.log == ["written, paused", "written, open"]


async def test_reading_resumes_only_when_neither_side_holds_it(world: ConnectionWorld) -> None:
    world.connection.pause_reading()
    world.connection.pause_writing()
    world.connection.resume_reading()
    assert world.transport.taken() == ["pause"] * 3
    world.connection.resume_writing()
    assert world.transport.taken() == ["resume"]


async def test_after_a_full_read_the_others_have_their_turn(world: ConnectionWorld) -> None:
    """The event loop reads on as long as there is more, up to 32 times before it looks at any other socket."""
    world.connection.data_received(b"a" * (FULL_READ_BYTES - 1))
    assert world.transport.taken() == []
    world.connection.data_received(b"a" * FULL_READ_BYTES)
    assert world.transport.taken() == ["pause"]
    await asyncio.sleep(0)
    assert world.transport.taken() == ["resume"]
    assert len(world.transport.written) == 1, "the turn has ended before"


async def test_a_rest_ends_no_other_pause(world: ConnectionWorld) -> None:
    world.connection.data_received(b"a" * FULL_READ_BYTES)
    world.connection.pause_reading()
    await asyncio.sleep(0)
    assert world.transport.taken() == ["pause"] * 3
    world.connection.resume_reading()
    assert world.transport.taken() == ["resume"]
    world.connection.data_received(b"a" * FULL_READ_BYTES)
    world.connection.connection_lost(None)
    await asyncio.sleep(0)


async def test_of_logins_that_end_at_once_a_few_end_in_each_turn() -> None:
    """A fleet may get its tokens in one second, and what each connection holds goes back to its queues."""
    world = ConnectionWorld(3 * LOGIN_ENDS_A_TURN)
    for connection in world.connections:
        connection.login_checked(LoggedIn("ann", frozenset(), ends_s=0.0, is_external=True))
    world.turn()
    counts = [0]
    while counts[-1] < len(world.connections):
        turn = world.engine_loop.turn
        await asyncio.sleep(0)
        counts.append(sum(len(session.given_up) for session in world.host.sessions))
        assert counts[-1] - counts[-2] <= LOGIN_ENDS_A_TURN * max(1, world.engine_loop.turn - turn)
    assert all(session.given_up == [EXPIRED] for session in world.host.sessions)


async def test_the_end_of_a_login_is_looked_for_again_while_the_clock_may_be_set(world: ConnectionWorld) -> None:
    """The timers of the loop do not hear of a wall clock that is set, or of a machine that has slept."""
    loop = asyncio.get_running_loop()
    before = set(loop._scheduled)  # type: ignore[attr-defined]
    world.connection.login_checked(LoggedIn("ann", frozenset(), ends_s=time.time() + 86_400, is_external=True))
    (timer,) = set(loop._scheduled) - before  # type: ignore[attr-defined]
    assert timer.when() - loop.time() <= LOGIN_LOOK_S
    world.connection.connection_lost(None)
    assert timer.cancelled()


async def test_a_defect_at_the_end_of_a_login_ends_the_connection_or_the_gateway(world: ConnectionWorld) -> None:
    world.session.is_broken = world.session.is_lossy = True
    world.connection.end_login()
    assert world.counters.session_faults == 1 and not world.engine_loop.failed.is_set()
    other = ConnectionWorld()
    other.session.is_engine_broken = True
    other.connection.end_login()
    assert other.engine_loop.failed.is_set(), "no change in the engine may be left half done"


async def test_a_session_with_frames_left_over_goes_on_in_the_next_turn(world: ConnectionWorld) -> None:
    world.session.share.charge(INPUT_STEPS)
    assert world.transport.taken() == ["pause"]
    world.turn()
    assert world.session.log == [] and world.engine_loop.is_open, "a next turn follows"
    world.turn()
    assert (world.session.log, world.transport.taken()) == (["reads on"], ["resume"])
    assert not world.engine_loop.is_open


async def test_a_lost_socket_is_told_after_the_frames_left_over(world: ConnectionWorld) -> None:
    world.session.share.charge(INPUT_STEPS)
    world.connection.connection_lost(None)
    assert (world.session.log, world.host.closed) == ([], 1)
    world.turn()
    world.turn()
    assert world.session.log == ["reads on", "lost"]


async def test_a_fault_in_frames_left_over_is_reported_although_the_socket_is_gone(
    world: ConnectionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.session.share.charge(INPUT_STEPS)
    world.connection.connection_lost(None)
    world.session.is_broken = world.session.is_lossy = True
    world.turn()
    world.turn()
    assert (world.session.log, world.counters.session_faults) == (["lost"], 1)
    assert "a defect of the gateway" in caplog.text and not world.engine_loop.failed.is_set()


async def test_a_lost_socket_is_told_once_and_nothing_is_written_after(world: ConnectionWorld) -> None:
    world.connection.data_received(b"a")
    world.connection.connection_lost(None)
    world.turn()
    assert (world.session.log, world.transport.written, world.host.closed) == (["lost"], [], 1)
    world.connection.data_received(b"b")
    world.connection.resume_writing()
    world.connection.credentials_checked(True)
    world.connection.shut_down()
    assert world.session.log == ["lost"]


async def test_credentials_go_to_the_host_and_the_answer_to_the_session(world: ConnectionWorld) -> None:
    world.connection.authenticate("ann", "secret")
    assert world.host.credentials == [("ann", "secret")]
    world.connection.credentials_checked(False)
    assert world.session.log == ["authenticated False"]


async def test_shutting_down_is_the_session_s_affair_and_abort_the_socket_s(world: ConnectionWorld) -> None:
    world.connection.shut_down()
    assert world.session.log == ["shut down"]
    world.connection.abort()
    assert world.transport.calls == ["abort"]


async def test_the_first_tick_comes_at_once(world: ConnectionWorld) -> None:
    async with asyncio.timeout(20):
        while world.session.ticks == 0:
            await asyncio.sleep(0)


async def test_the_end_says_that_no_more_comes_and_reads_on(world: ConnectionWorld) -> None:
    world.session.finish()
    world.connection.pause_reading()
    world.transport.taken()
    world.connection.data_received(b"last words")
    world.turn()
    assert world.transport.written == [b"last words"]
    assert world.transport.taken() == ["eof", "resume"], "a close with input unread would reset the connection"
    assert (world.session.log, world.host.closed) == (["lost"], 0)
    world.connection.data_received(b"still sending")
    assert world.session.out == b""
    world.connection.pause_writing()
    assert world.transport.taken() == ["resume"]
    world.connection.connection_lost(None)  # the peer has closed
    assert world.host.closed == 1
    assert world.session.log == ["lost"]


def lingering(world: ConnectionWorld) -> OrderlyClose:
    close = world.connection._close
    assert close is not None
    return close


async def test_a_peer_that_does_not_close_is_closed(world: ConnectionWorld) -> None:
    world.finish()
    lingering(world).end_round(LINGER_ROUNDS)
    assert world.transport.calls == ["eof", "resume", "close"]


async def test_a_peer_that_still_reads_gets_its_time_but_not_for_ever(world: ConnectionWorld) -> None:
    world.finish()
    world.transport.unsent = 1
    world.transport.taken()
    lingering(world).end_round(2)
    assert world.transport.calls == []
    lingering(world).end_round(1)
    assert world.transport.calls == ["abort"]


async def test_a_transport_that_cannot_half_close_is_closed() -> None:
    world = ConnectionWorld(can_half_close=False)
    world.finish()
    assert world.transport.calls == ["close"]


async def test_one_connection_too_many_is_told_so() -> None:
    world = ConnectionWorld(has_room=False)
    assert world.transport.written == [b"full"]
    assert world.transport.taken() == ["eof", "resume"]
    world.connection.data_received(b"x")
    assert world.host.sessions == []


async def test_small_answers_are_not_held_back_by_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ConnectionWorld(endpoint=client)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_peer_that_has_gone_when_we_say_good_bye(world: ConnectionWorld) -> None:
    world.session.finish()
    world.transport.is_gone = True
    world.connection.touch()
    world.turn()
    assert world.transport.calls == ["abort"]
    assert not world.engine_loop.failed.is_set()


# -- faults of our own

INPUTS: dict[str, Callable[[ConnectionWorld], object]] = {
    "data_received": lambda world: world.connection.data_received(b"x"),
    "eof_received": lambda world: world.connection.eof_received(),
    "resume_writing": lambda world: world.connection.resume_writing(),
    "connection_lost": lambda world: world.connection.connection_lost(None),
    "credentials_checked": lambda world: world.connection.credentials_checked(True),
    "shut_down": lambda world: world.connection.shut_down(),
    "tick": lambda world: world.connection.tick(world.clock.now_ms),
    "flush": lambda world: world.connection.flush(0, 0),
}


@pytest.mark.parametrize("name", INPUTS)
async def test_a_fault_that_has_passed_through_the_engine_stops_the_gateway(name: str, world: ConnectionWorld) -> None:
    world.session.is_engine_broken = True
    INPUTS[name](world)
    assert world.engine_loop.failed.is_set()
    world.session.is_engine_broken = False


@pytest.mark.parametrize("name", [name for name in INPUTS if name != "connection_lost"])
async def test_a_fault_that_the_engine_had_no_part_in_ends_its_connection_alone(
    name: str, world: ConnectionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    session = world.session
    session.out = b"half of an answer"
    session.is_broken = session.is_lossy = True
    INPUTS[name](world)
    assert not world.engine_loop.failed.is_set()
    assert (session.log, world.counters.session_faults) == (["lost"], 1)
    assert world.transport.written == [b"sorry: internal error of the gateway, which has logged it"]
    assert {"eof", "close"} & set(world.transport.taken())
    assert "a defect of the gateway while" in caplog.text
    assert "AssertionError: ours" in caplog.text
    world.connection.data_received(b"x")
    assert world.counters.session_faults == 1


async def test_a_session_that_cannot_be_taken_out_of_the_engine_stops_the_gateway(world: ConnectionWorld) -> None:
    world.session.is_broken = True
    world.connection.data_received(b"x")
    assert world.engine_loop.failed.is_set()
    world.session.is_broken = False


async def test_a_fault_in_the_last_words_is_logged_and_the_session_leaves(
    world: ConnectionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    session = world.session
    session.is_broken = session.is_lossy = session.is_speechless = True
    world.connection.data_received(b"x")
    assert not world.engine_loop.failed.is_set()
    assert (session.log, world.transport.written) == (["lost"], [])
    assert "its peer cannot be informed of the end" in caplog.text
    assert "AssertionError: no words" in caplog.text


async def test_a_fault_on_the_way_out_says_whose(world: ConnectionWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.session.is_broken = True
    world.connection.connection_lost(None)
    assert world.engine_loop.failed.is_set()
    assert "a fault in its session while losing the connection; {'session': 'described'}" in caplog.text
    assert "AssertionError: ours" in caplog.text
    world.session.is_broken = False


@pytest.mark.parametrize("is_lost", [True, False])
async def test_the_first_fault_of_a_turn_is_logged_with_the_number_of_the_others(
    world: ConnectionWorld, caplog: pytest.LogCaptureFixture, *, is_lost: bool
) -> None:
    for text in ("first", "second", "third"):
        assert world.connection.take_fault(KeyError(text))
    if is_lost:
        world.connection.connection_lost(None)
    world.turn()
    assert world.counters.session_faults == 1
    assert "KeyError: 'first'" in caplog.text
    assert "being called by the engine, and 2 more after it in this turn, ends" in caplog.text


async def test_a_fault_while_the_engine_calls_ends_the_connection_with_the_turn(world: ConnectionWorld) -> None:
    assert world.connection.take_fault(KeyError("ours"))
    assert world.session.log == [], "the engine is in the middle of a turn"
    world.turn()
    assert (world.session.log, world.counters.session_faults) == (["lost"], 1)
    assert not world.engine_loop.failed.is_set()


async def test_a_fault_in_the_engine_is_not_taken(world: ConnectionWorld) -> None:
    broker = world.engine_loop.broker
    with pytest.raises(AssertionError) as caught:
        broker.close_temporary(BrokerView(broker).queue("ordinary"))
    assert not world.connection.take_fault(caught.value)


async def test_after_a_fault_nothing_leaves_and_nothing_enters(world: ConnectionWorld) -> None:
    world.connection.data_received(b"confirmed too early")
    world.session.is_engine_broken = True
    world.connection.data_received(b"x")
    world.session.is_engine_broken = False
    ticks = world.session.ticks
    world.turn()
    world.connection.flush(0, 0)
    for name, put_in in INPUTS.items():
        if name != "connection_lost":
            put_in(world)
    world.connection.connection_lost(None)
    assert world.transport.written == []
    assert (world.session.log, world.session.ticks, world.host.closed) == ([], ticks, 1)


# -- peers that are gone, or take nothing


async def test_who_takes_no_output_for_long_is_given_up(world: ConnectionWorld) -> None:
    world.connection.data_received(b"abc")
    world.turn()
    world.transport.unsent = 2
    world.tick_after(0)  # it took one octet
    for _ in range(2):
        world.clock.now_ms += 59_999
        world.transport.unsent -= 1
        world.connection.tick(world.clock.now_ms)
        assert "abort" not in world.transport.calls, "it is slow, but it takes"
        world.transport.unsent = max(world.transport.unsent, 1)
    world.connection.data_received(b"more")
    world.turn()
    world.transport.unsent = 5
    world.tick_after(59_999)
    assert "abort" not in world.transport.calls
    world.tick_after(60_000)
    assert "abort" in world.transport.calls
    assert world.counters.stalled == 1


async def test_with_nothing_to_take_nobody_stalls(world: ConnectionWorld) -> None:
    for _ in range(3):
        world.tick_after(600_000)
    assert world.transport.calls == []


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_a_hang_up_is_noticed_while_a_blocked_producer_is_not_read(is_waiting: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        endpoint, _ = server.accept()
        with endpoint:
            world = ConnectionWorld(endpoint=endpoint)
            world.session.is_waiting = is_waiting
            world.connection.pause_reading()
            world.connection.tick(world.clock.now_ms)
            assert "abort" not in world.transport.calls
            peer.sendall(b"unread, and in front of the end")
            peer.close()
            poll = select.poll()
            poll.register(endpoint, select.POLLRDHUP)
            assert poll.poll(20_000)
            world.connection.tick(world.clock.now_ms)
            assert ("abort" in world.transport.calls) == is_waiting


async def test_frames_that_went_with_a_connection_are_counted(
    world: ConnectionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.connection.frames_dropped(3)
    assert world.counters.dropped_frames == 3
    assert "192.0.2.7:5555: lost with the connection: 3 unconfirmed frames" in caplog.text


async def test_the_kernel_looks_after_silent_peers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ConnectionWorld(endpoint=client)
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_the_end_of_input_is_the_session_s_affair(world: ConnectionWorld) -> None:
    assert world.connection.eof_received()
    assert world.session.log == ["input ended"]
    world.finish()
    assert world.transport.calls == ["close"], "there is nothing left to read"
    assert not world.connection.eof_received()


async def test_a_carrier_that_names_the_protocol_gets_its_adapter_before_any_octet(world: ConnectionWorld) -> None:
    adapter = Session(world.broker, world.connection)
    asked: list[int] = []

    def session_for(connection: SessionSocket, protocol: int) -> Session:
        asked.append(protocol)
        return adapter

    world.host.session_for = session_for  # type: ignore[method-assign]
    place = Place(Admission(1, 1, world.counters), "10.0.0.1", "")
    connection = Connection(world.host, world.engine_loop, world.counters, place, 4096, 60_000)
    connection.expect(AMQP_1_0)
    transport = Transport(True, None)
    connection.connection_made(transport)
    assert asked == [AMQP_1_0]
    connection.data_received(b"anything")
    assert (asked, adapter.out) == ([AMQP_1_0], b"anything")
