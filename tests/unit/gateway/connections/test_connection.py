"""One socket and its session: octets both ways, back-pressure, an end that the peer gets to see."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections.abc import Callable

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import Consumer
from engine.values.delivery import Delivery
from engine.values.errors import EngineError, PenstockError
from engine.values.message import Message
from gateway.connections.admission import Admission, Place
from gateway.connections.connection import FULL_READ_BYTES, Connection
from gateway.connections.orderly_close import LINGER_ROUNDS, OrderlyClose
from gateway.connections.session_socket import ConnectionHost, SessionSocket
from gateway.loop.engine_loop import HELD_BACK_ROUNDS, EngineLoop
from gateway.process.counters import GatewayCounters
from protocols.connection import ProtocolConnection
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import VirtualClock, VirtualTimers
from tests.support.store.scripted_store import ScriptedStore

LIMIT_S = 20.0


class Transport(asyncio.Transport):
    """What the event loop would give; ``unsent``: octets that the peer has not taken."""

    def __init__(self, can_half_close: bool, endpoint: socket.socket | None) -> None:
        super().__init__({"peername": ("192.0.2.7", 5555), "socket": endpoint})
        self.written: list[bytes] = []
        self.calls: list[str] = []
        self.unsent = 0
        self.limit = 0
        self.is_gone = False
        self._can_half_close = can_half_close
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self._is_closing = True
        self.calls.append("close")

    def abort(self) -> None:
        self._is_closing = True
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self.limit = high

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def can_write_eof(self) -> bool:
        return self._can_half_close

    def write_eof(self) -> None:
        if self.is_gone:
            raise OSError("Transport endpoint is not connected")
        self.calls.append("eof")

    def taken(self) -> list[str]:
        calls = self.calls
        self.calls = []
        return calls


class Session(ProtocolConnection):
    """Answers each read with the same octets; ``finish`` ends it."""

    def __init__(self, broker: Broker, connection: SessionSocket) -> None:
        super().__init__(broker, connection, 1 << 20)
        self.connection = connection
        self.given_up: list[str] = []
        self.out = b""
        self.finished = False
        self.ticks = 0
        self.is_broken = False
        self.is_engine_broken = False
        self.is_lossy = False
        self.is_waiting = False
        self.log: list[str] = []

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.check()
        self.out += octets
        self.connection.touch()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        self.check()
        out, self.out = self.out, b""
        self.outbox.size_bytes = 0
        return out

    def give_up(self, error: EngineError) -> None:
        self.given_up.append(str(error))
        self.connection.cut_off()

    def check(self) -> None:
        assert not self.is_broken, "ours"
        if self.is_engine_broken:
            broker = self.connection._engine_loop.broker
            broker.close_temporary(BrokerView(broker).queue("ordinary"))

    def output_written(self, is_paused: bool) -> None:
        self.check()
        self.log.append(f"written, {'paused' if is_paused else 'open'}")

    def finish(self) -> None:
        self.is_ending = self.finished = True

    def is_finished(self) -> bool:
        return self.finished

    def authenticated(self, is_allowed: bool) -> None:
        self.check()
        self.log.append(f"authenticated {is_allowed}")

    def tick(self, now_ms: int) -> int:
        self.check()
        self.ticks += 1
        return 60_000

    def is_blocked(self) -> bool:
        return self.is_waiting

    def pause_reading(self) -> None:
        raise AssertionError("nothing waits at a gate here")

    def input_ended(self) -> None:
        self.check()
        self.log.append("input ended")

    def fault_words(self, text: str) -> bytes:
        return f"sorry: {text}".encode()

    def connection_lost(self) -> None:
        if not self.is_lossy:
            self.check()
        self.log.append("lost")

    def shut_down(self) -> None:
        self.check()
        self.log.append("shut down")

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None: ...

    def deliver_settled(
        self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int
    ) -> None: ...

    def fail(self, error: PenstockError) -> None: ...

    def release_owed(self, offset: int) -> bool:
        return False

    def send_waiting(self) -> None: ...

    def refuse_waiting(self, uri: str, error: EngineError) -> None: ...

    def describe(self) -> dict[str, str]:
        return {}


class Host(ConnectionHost):
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.has_room = True
        self.sessions: list[Session] = []
        self.closed = 0
        self.credentials: list[tuple[str, str]] = []

    def new_session(self, connection: SessionSocket) -> ProtocolConnection:
        self.sessions.append(Session(self.broker, connection))
        return self.sessions[-1]

    def connection_opened(self, connection: SessionSocket) -> bool:
        return self.has_room

    def connection_closed(self, connection: SessionSocket) -> None:
        self.closed += 1

    def refusal(self, connection: SessionSocket) -> bytes:
        return b"full"

    def warn(self, connection: SessionSocket, text: str) -> None:
        logging.getLogger("penstock.connection").warning("%s: %s", connection.peer(), text)

    def check_credentials(self, connection: SessionSocket, login: str, passcode: str) -> None:
        self.credentials.append((login, passcode))

    def check_proved(self, connection: SessionSocket, login: str, is_right: bool) -> None:
        raise AssertionError("no session of these tests knows SCRAM")


class World:
    def __init__(
        self, *, has_room: bool = True, can_half_close: bool = True, endpoint: socket.socket | None = None
    ) -> None:
        clock = VirtualClock()
        store = ScriptedStore()
        broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1024)
        self.engine_loop = EngineLoop(asyncio.get_running_loop(), broker, store, clock)
        self.host = Host(broker)
        self.host.has_room = has_room
        self.transport = Transport(can_half_close, endpoint)
        self.clock = clock
        self.counters = GatewayCounters()
        place = Place(Admission(1, 1, self.counters), "10.0.0.1", "")
        self.connection = Connection(self.host, self.engine_loop, self.counters, place, 4096, 60_000)
        self.connection.connection_made(self.transport)

    @property
    def session(self) -> Session:
        return self.host.sessions[0]

    def turn(self) -> None:
        self.engine_loop.end_turn()


@pytest.fixture
async def world() -> World:
    return World()


async def test_octets_in_and_out_once_a_turn(world: World) -> None:
    world.connection.data_received(b"a")
    world.connection.data_received(b"b")
    assert world.transport.written == []
    world.turn()
    assert world.transport.written == [b"ab"]
    assert world.session.log == [], "nothing has changed for the session"
    assert (world.transport.limit, world.connection.peer()) == (4096, "192.0.2.7:5555")


async def test_a_session_that_has_held_itself_back_is_told_what_has_left(world: World) -> None:
    world.session.is_output_full = True
    world.connection.data_received(b"a")
    world.turn()
    assert world.session.log == ["written, open"]


async def test_a_turn_without_octets_writes_nothing(world: World) -> None:
    world.connection.touch()
    world.turn()
    assert (world.transport.written, world.session.log) == ([], [])


async def test_a_socket_that_takes_nothing_is_not_read_either(world: World) -> None:
    world.connection.pause_writing()
    assert world.transport.taken() == ["pause"]
    world.connection.data_received(b"a")
    world.turn()
    assert world.session.log == ["written, paused"]
    world.connection.resume_writing()
    assert world.transport.taken() == ["resume"]
    assert world.session.log == ["written, paused", "written, open"]


async def test_reading_resumes_only_when_neither_side_holds_it(world: World) -> None:
    world.connection.pause_reading()
    world.connection.pause_writing()
    world.connection.resume_reading()
    assert world.transport.taken() == ["pause"] * 3
    world.connection.resume_writing()
    assert world.transport.taken() == ["resume"]


async def test_after_a_full_read_the_others_have_their_turn(world: World) -> None:
    """The event loop reads on as long as there is more, up to 32 times before it looks at any other socket."""
    world.connection.data_received(b"a" * (FULL_READ_BYTES - 1))
    assert world.transport.taken() == []
    world.connection.data_received(b"a" * FULL_READ_BYTES)
    assert world.transport.taken() == ["pause"]
    await asyncio.sleep(0)
    assert world.transport.taken() == ["resume"]
    assert len(world.transport.written) == 1, "the turn has ended before"


async def test_a_rest_ends_no_other_pause(world: World) -> None:
    world.connection.data_received(b"a" * FULL_READ_BYTES)
    world.connection.pause_reading()
    await asyncio.sleep(0)
    assert world.transport.taken() == ["pause"] * 3
    world.connection.resume_reading()
    assert world.transport.taken() == ["resume"]
    world.connection.data_received(b"a" * FULL_READ_BYTES)
    world.connection.connection_lost(None)
    await asyncio.sleep(0)


async def test_a_lost_socket_is_told_once_and_nothing_is_written_after(world: World) -> None:
    world.connection.data_received(b"a")
    world.connection.connection_lost(None)
    world.turn()
    assert (world.session.log, world.transport.written, world.host.closed) == (["lost"], [], 1)
    world.connection.data_received(b"b")
    world.connection.resume_writing()
    world.connection.credentials_checked(True)
    world.connection.shut_down()
    assert world.session.log == ["lost"]


async def test_credentials_go_to_the_host_and_the_answer_to_the_session(world: World) -> None:
    world.connection.authenticate("ann", "secret")
    assert world.host.credentials == [("ann", "secret")]
    world.connection.credentials_checked(False)
    assert world.session.log == ["authenticated False"]


async def test_shutting_down_is_the_session_s_affair_and_abort_the_socket_s(world: World) -> None:
    world.connection.shut_down()
    assert world.session.log == ["shut down"]
    world.connection.abort()
    assert world.transport.calls == ["abort"]


async def test_the_first_tick_comes_at_once(world: World) -> None:
    async with asyncio.timeout(20):
        while world.session.ticks == 0:
            await asyncio.sleep(0)


async def test_the_end_says_that_no_more_comes_and_reads_on(world: World) -> None:
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


def lingering(world: World) -> OrderlyClose:
    close = world.connection._close
    assert close is not None
    return close


async def test_a_peer_that_does_not_close_is_closed(world: World) -> None:
    world.session.finish()
    world.connection.touch()
    world.turn()
    lingering(world).end_round(LINGER_ROUNDS)
    assert world.transport.calls == ["eof", "resume", "close"]


async def test_a_peer_that_still_reads_gets_its_time_but_not_for_ever(world: World) -> None:
    world.session.finish()
    world.connection.touch()
    world.turn()
    world.transport.unsent = 1
    world.transport.taken()
    lingering(world).end_round(2)
    assert world.transport.calls == []
    lingering(world).end_round(1)
    assert world.transport.calls == ["abort"]


async def test_a_transport_that_cannot_half_close_is_closed() -> None:
    world = World(can_half_close=False)
    world.session.finish()
    world.connection.touch()
    world.turn()
    assert world.transport.calls == ["close"]


async def test_one_connection_too_many_is_told_so() -> None:
    world = World(has_room=False)
    assert world.transport.written == [b"full"]
    assert world.transport.taken() == ["eof", "resume"]
    world.connection.data_received(b"x")
    assert world.host.sessions == []


async def test_small_answers_are_not_held_back_by_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        World(endpoint=client)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_peer_that_has_gone_when_we_say_good_bye(world: World) -> None:
    world.session.finish()
    world.transport.is_gone = True
    world.connection.touch()
    world.turn()
    assert world.transport.calls == ["abort"]
    assert not world.engine_loop.failed.is_set()


# -- faults of our own

INPUTS: dict[str, Callable[[World], object]] = {
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
async def test_a_fault_that_has_passed_through_the_engine_stops_the_gateway(name: str, world: World) -> None:
    world.session.is_engine_broken = True
    INPUTS[name](world)
    assert world.engine_loop.failed.is_set()
    world.session.is_engine_broken = False


@pytest.mark.parametrize("name", [name for name in INPUTS if name != "connection_lost"])
async def test_a_fault_that_the_engine_had_no_part_in_ends_its_connection_alone(
    name: str, world: World, caplog: pytest.LogCaptureFixture
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


async def test_a_session_that_cannot_be_taken_out_of_the_engine_stops_the_gateway(world: World) -> None:
    world.session.is_broken = True
    world.connection.data_received(b"x")
    assert world.engine_loop.failed.is_set()
    world.session.is_broken = False


async def test_a_fault_while_the_engine_calls_ends_the_connection_with_the_turn(world: World) -> None:
    assert world.connection.take_fault(KeyError("ours"))
    assert world.session.log == [], "the engine is in the middle of a turn"
    world.turn()
    assert (world.session.log, world.counters.session_faults) == (["lost"], 1)
    assert not world.engine_loop.failed.is_set()


async def test_a_fault_in_the_engine_is_not_taken(world: World) -> None:
    broker = world.engine_loop.broker
    with pytest.raises(AssertionError) as caught:
        broker.close_temporary(BrokerView(broker).queue("ordinary"))
    assert not world.connection.take_fault(caught.value)


async def test_after_a_fault_nothing_leaves_and_nothing_enters(world: World) -> None:
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


async def test_who_takes_no_output_for_long_is_given_up(world: World) -> None:
    world.connection.data_received(b"abc")
    world.turn()
    world.transport.unsent = 2
    world.connection.tick(world.clock.now_ms)  # it took one octet
    for _ in range(2):
        world.clock.now_ms += 59_999
        world.transport.unsent -= 1
        world.connection.tick(world.clock.now_ms)
        assert "abort" not in world.transport.calls, "it is slow, but it takes"
        world.transport.unsent = max(world.transport.unsent, 1)
    world.connection.data_received(b"more")
    world.turn()
    world.transport.unsent = 5
    world.clock.now_ms += 59_999
    world.connection.tick(world.clock.now_ms)
    assert "abort" not in world.transport.calls
    world.clock.now_ms += 60_000
    world.connection.tick(world.clock.now_ms)
    assert "abort" in world.transport.calls
    assert world.counters.stalled == 1


async def test_with_nothing_to_take_nobody_stalls(world: World) -> None:
    for _ in range(3):
        world.clock.now_ms += 600_000
        world.connection.tick(world.clock.now_ms)
    assert world.transport.calls == []


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_a_hang_up_is_noticed_while_a_blocked_producer_is_not_read(is_waiting: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        endpoint, _ = server.accept()
        with endpoint:
            world = World(endpoint=endpoint)
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


async def test_frames_that_went_with_a_connection_are_counted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.connection.frames_dropped(3)
    assert world.counters.dropped_frames == 3
    assert "192.0.2.7:5555: 3 unconfirmed frames" in caplog.text


async def test_the_kernel_looks_after_silent_peers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        World(endpoint=client)
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_the_end_of_input_is_the_session_s_affair(world: World) -> None:
    assert world.connection.eof_received()
    assert world.session.log == ["input ended"]
    world.session.finish()
    world.connection.touch()
    world.turn()
    assert world.transport.calls == ["close"], "there is nothing left to read"
    assert not world.connection.eof_received()


# -- what peers do not read, of all connections


class Crowd:
    """Connections of one gateway; the first of them reads nothing."""

    def __init__(self, count: int, limit_bytes: int) -> None:
        clock = VirtualClock()
        store = ScriptedStore()
        self.broker = Broker(
            store, clock, VirtualTimers(clock), AddressMatcher(()), 1024, connection_memory_bytes=limit_bytes
        )
        self.engine_loop = EngineLoop(asyncio.get_running_loop(), self.broker, store, clock)
        self.host = Host(self.broker)
        self.transports = [Transport(True, None) for _ in range(count)]
        self.connections = []
        for transport in self.transports:
            place = Place(Admission(1, 1, GatewayCounters()), "10.0.0.1", "")
            connection = Connection(self.host, self.engine_loop, GatewayCounters(), place, 4096, 60_000)
            connection.connection_made(transport)
            self.broker.connect(self.host.sessions[-1])
            self.connections.append(connection)

    def write(self, number: int, size_bytes: int) -> None:
        """Have a session send so much in one turn."""
        session = self.host.sessions[number]
        session.out = b"x" * size_bytes
        session.outbox.size_bytes = size_bytes
        self.connections[number].touch()
        self.engine_loop.end_turn()

    def written_bytes(self, number: int) -> int:
        return sum(len(octets) for octets in self.transports[number].written)


async def test_what_is_unread_counts_until_it_is_read() -> None:
    crowd = Crowd(1, 1_000_000)
    holdings = crowd.broker.holdings
    crowd.write(0, 1_000)
    assert holdings.unread_bytes == 0, "so little has left, as far as anybody knows"
    crowd.transports[0].unsent = 900
    crowd.write(0, 1_000)
    assert holdings.unread_bytes == 900
    crowd.write(0, 200_000)
    assert holdings.unread_bytes == 200_900, "what is large counts before it is written"
    crowd.transports[0].unsent = 0
    crowd.connections[0].resume_writing()
    assert holdings.unread_bytes == 0


async def test_what_is_unread_goes_with_the_socket_and_not_with_the_session() -> None:
    crowd = Crowd(1, 1_000_000)
    crowd.write(0, 200_000)
    crowd.transports[0].unsent = 150_000
    crowd.host.sessions[0].finish()
    crowd.write(0, 10)
    crowd.broker.disconnect(crowd.host.sessions[0], is_lost=False)
    assert BrokerView(crowd.broker).held_by_connections() == 150_000
    crowd.connections[0].connection_lost(None)
    assert BrokerView(crowd.broker).held_by_connections() == 0


async def test_large_output_waits_while_others_have_not_read_theirs() -> None:
    crowd = Crowd(3, 1_000_000)
    crowd.write(0, 400_000)
    crowd.transports[0].unsent = 400_000
    crowd.write(1, 200_000)
    crowd.write(2, 1_000)
    assert crowd.written_bytes(1) == 0
    assert crowd.written_bytes(2) == 1_000, "what is small leaves"
    assert crowd.host.sessions[1].log == ["written, paused"], "the engine hands it nothing more"
    crowd.transports[0].unsent = 200_000
    async with asyncio.timeout(LIMIT_S):
        while not crowd.written_bytes(1):
            await asyncio.sleep(0.001)
    assert crowd.written_bytes(1) == 200_000
    assert BrokerView(crowd.broker).ended_for_memory() == 0


async def test_who_reads_nothing_ends_when_others_have_waited_for_long() -> None:
    crowd = Crowd(2, 1_000_000)
    crowd.write(0, 450_000)
    crowd.transports[0].unsent = 450_000
    crowd.write(1, 200_000)
    for _ in range(HELD_BACK_ROUNDS + 2):
        crowd.engine_loop._flush_held_back()
        crowd.engine_loop.end_turn()
    assert "limits.connection-memory" in crowd.host.sessions[0].given_up[0]
    assert "abort" in crowd.transports[0].calls
    assert crowd.written_bytes(1) == 200_000
    assert crowd.host.sessions[1].given_up == []


async def test_who_reads_slowly_is_waited_for() -> None:
    crowd = Crowd(2, 1_000_000)
    crowd.write(0, 480_000)
    crowd.transports[0].unsent = 480_000
    crowd.write(1, 490_000)
    for _ in range(4 * HELD_BACK_ROUNDS):
        crowd.transports[0].unsent -= 100
        crowd.engine_loop._flush_held_back()
        crowd.engine_loop.end_turn()
    assert crowd.host.sessions[0].given_up == []
    assert crowd.written_bytes(1) == 0
    crowd.transports[0].unsent = 0
    crowd.engine_loop._flush_held_back()
    crowd.engine_loop.end_turn()
    assert crowd.written_bytes(1) == 490_000


async def test_while_it_is_crowded_nobody_gets_more_before_it_has_read() -> None:
    crowd = Crowd(2, 1_000_000)
    crowd.write(0, 600_000)
    crowd.transports[0].unsent = 600_000
    crowd.transports[1].unsent = 10
    crowd.write(1, 1_000)
    assert crowd.transports[1].limit == 0
    crowd.transports[0].unsent = 0
    crowd.connections[0].resume_writing()
    crowd.write(1, 1_000)
    assert crowd.transports[1].limit == 4096
