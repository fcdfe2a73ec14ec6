"""Output that peers do not read, of all connections: it counts, and more waits for it."""

from __future__ import annotations

import asyncio

from gateway.loop.engine_loop import HELD_BACK_ROUNDS
from tests.support.connection_world import ConnectionWorld
from tests.support.engine.broker_view import BrokerView

LIMIT_S = 60.0


def crowd_of(count: int) -> ConnectionWorld:
    """Return connections that may hold a million octets; the first of them reads nothing."""
    world = ConnectionWorld(count, limit_bytes=1_000_000)
    for session in world.host.sessions:
        world.broker.connect(session)
    return world


async def test_what_is_unread_counts_until_it_is_read() -> None:
    crowd = crowd_of(1)
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
    crowd = crowd_of(1)
    crowd.write(0, 200_000)
    crowd.transports[0].unsent = 150_000
    crowd.host.sessions[0].finish()
    crowd.write(0, 10)
    crowd.broker.disconnect(crowd.host.sessions[0], is_lost=False)
    assert BrokerView(crowd.broker).held_by_connections() == 150_000
    crowd.connections[0].connection_lost(None)
    assert BrokerView(crowd.broker).held_by_connections() == 0


async def test_large_output_waits_while_others_have_not_read_theirs() -> None:
    crowd = crowd_of(3)
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
    crowd = crowd_of(2)
    crowd.write(0, 450_000)
    crowd.transports[0].unsent = 450_000
    crowd.write(1, 200_000)
    for _ in range(HELD_BACK_ROUNDS + 2):
        crowd.engine_loop._flush_held_back()
        crowd.turn()
    assert "limits.connection-memory" in crowd.host.sessions[0].given_up[0]
    assert "abort" in crowd.transports[0].calls
    assert crowd.written_bytes(1) == 200_000
    assert crowd.host.sessions[1].given_up == []


async def test_who_reads_slowly_is_waited_for() -> None:
    crowd = crowd_of(2)
    crowd.write(0, 480_000)
    crowd.transports[0].unsent = 480_000
    crowd.write(1, 490_000)
    for _ in range(4 * HELD_BACK_ROUNDS):
        crowd.transports[0].unsent -= 100
        crowd.engine_loop._flush_held_back()
        crowd.turn()
    assert crowd.host.sessions[0].given_up == []
    assert crowd.written_bytes(1) == 0
    crowd.transports[0].unsent = 0
    crowd.engine_loop._flush_held_back()
    crowd.turn()
    assert crowd.written_bytes(1) == 490_000


async def test_while_it_is_crowded_nobody_gets_more_before_it_has_read() -> None:
    crowd = crowd_of(2)
    crowd.write(0, 600_000)
    crowd.transports[0].unsent = 600_000
    crowd.transports[1].unsent = 10
    crowd.write(1, 1_000)
    assert crowd.transports[1].limit == 0
    crowd.transports[0].unsent = 0
    crowd.connections[0].resume_writing()
    crowd.write(1, 1_000)
    assert crowd.transports[1].limit == 4096
