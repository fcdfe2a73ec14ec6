"""Passwords that wait: who is checked next, who is refused, and that a flood of wrong ones keeps nobody out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from gateway.logins.login_queue import CONCURRENT_CHECKS_MAX, WAITING_MAX, WAITING_PER_ADDRESS_MAX, LoginQueue
from gateway.process.counters import GatewayCounters
from tests.support.stopped_time import stopped_time

LIMIT_S = 120.0  # beside other work a process may stand still for many seconds


class Verifier:
    """Answers a check only when it is told to; the right password is ``right``."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str]] = []
        self._places = threading.Semaphore(0)

    def check(self, login: str, passcode: str) -> bool:
        self.begun.append((login, passcode))
        assert self._places.acquire(timeout=LIMIT_S)
        return passcode == "right"

    def let(self, count: int) -> None:
        self._places.release(count)


class World:
    def __init__(self) -> None:
        self.verifier = Verifier()
        self.counters = GatewayCounters()
        self.checks = LoginQueue(self.verifier.check, self.counters)
        self.tasks: list[asyncio.Task[bool]] = []

    def ask(self, address: str, login: str, passcode: str) -> asyncio.Task[bool]:
        task = asyncio.ensure_future(self._answer(address, login, passcode))
        self.tasks.append(task)
        return task

    async def _answer(self, address: str, login: str, passcode: str) -> bool:
        async with asyncio.timeout(LIMIT_S):
            return await self.checks.check(address, login, passcode)

    async def begun(self, count: int) -> list[tuple[str, str]]:
        async with asyncio.timeout(LIMIT_S):
            while len(self.verifier.begun) < count:
                await asyncio.sleep(0.001)
        return self.verifier.begun

    async def next_begun(self) -> tuple[str, str]:
        """End one running check; return the one that takes its place, which is known as only one does."""
        count = len(self.verifier.begun) + 1
        self.verifier.let(1)
        return (await self.begun(count))[count - 1]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    world.verifier.let(10_000)
    for task in world.tasks:
        task.cancel()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*world.tasks, return_exceptions=True)


async def test_right_and_wrong(world: World) -> None:
    world.verifier.let(2)
    assert await world.ask("10.0.0.1", "ann", "right")
    assert not await world.ask("10.0.0.1", "ann", "wrong")
    assert world.counters.failed_logins == 1


async def test_a_flood_from_one_address_does_not_keep_out_another(world: World) -> None:
    flood = [world.ask("10.0.0.66", f"mallory{number}", "wrong") for number in range(3_000)]
    await asyncio.sleep(0)
    honest = world.ask("10.0.0.1", "ann", "right")
    await world.begun(CONCURRENT_CHECKS_MAX)
    assert await world.next_begun() == ("ann", "right")
    world.verifier.let(10_000)
    assert await honest
    async with asyncio.timeout(LIMIT_S):
        while world.counters.refused_logins < 3_000 - CONCURRENT_CHECKS_MAX - WAITING_PER_ADDRESS_MAX:
            await asyncio.sleep(0.001)
    assert sum(task.done() and not task.result() for task in flood) >= world.counters.refused_logins
    assert world.checks.waiting_count <= WAITING_PER_ADDRESS_MAX


async def test_all_addresses_together_are_bounded(world: World) -> None:
    for number in range(WAITING_MAX + CONCURRENT_CHECKS_MAX + 10):
        world.ask(f"10.0.{number // 200}.{number % 200}", "ann", f"wrong{number}")
    await world.begun(CONCURRENT_CHECKS_MAX)
    assert world.checks.waiting_count == WAITING_MAX
    assert world.counters.refused_logins == 10


async def fill(world: World, addresses: int, attempts: int) -> list[asyncio.Task[bool]]:
    """Have a few addresses take all places."""
    flood = [
        world.ask(f"10.6.6.{number % addresses}", f"mallory{number}", "wrong")
        for number in range(addresses * attempts + CONCURRENT_CHECKS_MAX)
    ]
    await world.begun(CONCURRENT_CHECKS_MAX)
    assert world.checks.waiting_count == WAITING_MAX
    return flood


async def test_a_few_addresses_that_take_all_places_keep_out_nobody(world: World) -> None:
    flood = await fill(world, 4, WAITING_PER_ADDRESS_MAX)
    honest = world.ask("10.0.0.1", "ann", "right")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert world.checks.waiting_count == WAITING_MAX
    assert sum(task.done() for task in flood) == world.counters.refused_logins == 1, "one has given its place"
    soon = 4 + 2 * CONCURRENT_CHECKS_MAX  # each address has its turn
    assert ("ann", "right") in [await world.next_begun() for _ in range(soon - CONCURRENT_CHECKS_MAX)]
    world.verifier.let(10_000)
    assert await honest


async def test_those_that_failed_give_their_places_first(world: World) -> None:
    """Many addresses with a place each: one that has failed gives way, to one that has not."""
    world.verifier.let(1)
    with stopped_time():
        assert not await world.ask("10.7.0.0", "mallory", "wrong")
        first = world.ask("10.7.0.0", "mallory", "wrong again")
        for number in range(WAITING_MAX - 1 + CONCURRENT_CHECKS_MAX):
            world.ask(f"10.8.{number // 200}.{number % 200}", "eve", f"wrong{number}")
        await asyncio.sleep(0)
    await world.begun(1 + CONCURRENT_CHECKS_MAX)
    assert world.checks.waiting_count == WAITING_MAX
    honest = world.ask("10.0.0.1", "ann", "right")
    assert not await first
    last = world.ask("10.0.0.2", "bob", "right")
    assert not await last, "nobody has more than it"
    world.verifier.let(WAITING_MAX + CONCURRENT_CHECKS_MAX)
    assert await honest


async def test_who_has_most_places_takes_none_from_others(world: World) -> None:
    flood = await fill(world, 4, WAITING_PER_ADDRESS_MAX)
    more = world.ask("10.6.6.0", "mallory", "one more")
    fifth = world.ask("10.6.6.77", "mallory", "a fifth address")
    assert not await more
    await asyncio.sleep(0)
    assert not fifth.done()
    assert sum(task.done() for task in flood) == 1


async def test_guesses_of_one_login_do_not_keep_out_another_login_of_their_address(world: World) -> None:
    """As where all clients are behind one proxy, or on one machine."""
    flood = [world.ask("10.0.0.1", "alice", f"wrong {number}") for number in range(2 * WAITING_PER_ADDRESS_MAX)]
    await world.begun(CONCURRENT_CHECKS_MAX)
    honest = world.ask("10.0.0.1", "bob", "right")
    await asyncio.sleep(0)
    assert not honest.done(), "it has taken the place of a guess"
    assert not (again := world.ask("10.0.0.1", "alice", "one more")).done()
    await asyncio.sleep(0)
    assert again.done() and not again.result()
    world.verifier.let(1)
    assert (await world.begun(CONCURRENT_CHECKS_MAX + 1))[-1] == ("bob", "right")
    world.verifier.let(10_000)
    assert await honest
    assert sum(task.done() and not task.result() for task in flood) >= WAITING_PER_ADDRESS_MAX


async def test_a_login_takes_a_place_of_its_address_where_all_addresses_together_have_all(world: World) -> None:
    for number in range(WAITING_MAX + CONCURRENT_CHECKS_MAX):
        world.ask(f"10.6.6.{number % 8}", "mallory", f"wrong {number}")
    await world.begun(CONCURRENT_CHECKS_MAX)
    assert world.checks.waiting_count == WAITING_MAX
    newcomer = world.ask("10.6.6.0", "ann", "right")
    await asyncio.sleep(0)
    assert not newcomer.done()
    assert world.checks.waiting_count == WAITING_MAX
    world.verifier.let(10_000)
    assert await newcomer


async def test_equal_attempts_are_one_check(world: World) -> None:
    fleet = [world.ask(f"10.0.1.{number % 250}", "ann", "right") for number in range(2_000)]
    await world.begun(1)
    world.verifier.let(1)
    assert all(await asyncio.gather(*fleet))
    assert world.verifier.begun == [("ann", "right")]


async def test_who_waits_too_long_is_refused(world: World) -> None:
    world.checks = LoginQueue(world.verifier.check, world.counters, wait_most_s=0.0)
    many = [world.ask("10.0.0.1", f"user{number}", "right") for number in range(CONCURRENT_CHECKS_MAX + 3)]
    many += [world.ask("10.0.0.1", "user0", "right")]
    assert await asyncio.gather(*many) == [False] * len(many)
    assert world.counters.refused_logins == len(many) and world.counters.failed_logins == 0
    assert world.checks.waiting_count == 0
    assert len(await world.begun(CONCURRENT_CHECKS_MAX)) == CONCURRENT_CHECKS_MAX


async def test_who_has_gone_is_not_checked(world: World) -> None:
    running = [world.ask("10.0.0.1", "ann", f"wrong{number}") for number in range(CONCURRENT_CHECKS_MAX)]
    await world.begun(CONCURRENT_CHECKS_MAX)
    gone = world.ask("10.0.0.2", "bob", "right")
    last = world.ask("10.0.0.3", "eve", "right")
    await asyncio.sleep(0)
    gone.cancel()
    world.verifier.let(CONCURRENT_CHECKS_MAX + 1)
    assert await last
    assert not any(await asyncio.gather(*running))
    assert ("bob", "right") not in world.verifier.begun
    assert world.checks.waiting_count == 0


async def test_a_login_that_failed_waits_behind_one_that_did_not(world: World) -> None:
    world.verifier.let(1)
    assert not await world.ask("10.0.0.1", "ann", "wrong")
    for number in range(CONCURRENT_CHECKS_MAX):
        world.ask("10.0.0.2", "busy", f"wrong{number}")
    await world.begun(1 + CONCURRENT_CHECKS_MAX)
    failed = world.ask("10.0.0.1", "ann", "right")
    fresh = world.ask("10.0.0.1", "bob", "right")
    await asyncio.sleep(0)
    assert await world.next_begun() == ("bob", "right")
    world.verifier.let(CONCURRENT_CHECKS_MAX + 1)
    assert await fresh
    assert await failed  # after the delay


async def test_equal_addresses_take_turns(world: World) -> None:
    for number in range(CONCURRENT_CHECKS_MAX):
        world.ask("10.0.0.9", "busy", f"wrong{number}")
    await world.begun(CONCURRENT_CHECKS_MAX)
    for number in range(3):
        world.ask("10.0.0.1", f"ann{number}", "right")
    world.ask("10.0.0.2", "bob", "right")
    await asyncio.sleep(0)
    begun = [await world.next_begun() for _ in range(4)]
    assert begun.index(("bob", "right")) < begun.index(("ann2", "right"))


# -- logins whose proof has been looked at (SCRAM)


async def test_a_wrong_proof_counts_as_a_wrong_password(world: World) -> None:
    assert await world.checks.proved("10.0.0.1", "ann", True)
    assert not await world.checks.proved("10.0.0.1", "ann", False)
    assert world.counters.failed_logins == 1
    assert world.verifier.begun == [], "there is nothing to compute"


async def test_after_a_wrong_proof_the_next_waits_and_a_right_one_too(world: World) -> None:
    loop = asyncio.get_running_loop()
    with stopped_time():
        assert not await world.checks.proved("10.0.0.1", "ann", False)
        right = loop.create_task(world.checks.proved("10.0.0.1", "ann", True))
        password = world.ask("10.0.0.1", "ann", "wrong")
        await asyncio.sleep(0)
        assert world.checks.waiting_count == 2, "who guesses learns nothing from an answer that comes at once"
        assert await world.checks.proved("10.0.0.2", "ann", True), "of another address"
        assert await world.checks.proved("10.0.0.1", "bob", True)
    world.verifier.let(1)
    assert await right
    assert not await password


async def test_wrong_proofs_that_wait_are_bounded(world: World) -> None:
    loop = asyncio.get_running_loop()
    many = [loop.create_task(world.checks.proved("10.0.0.1", "ann", False)) for _ in range(WAITING_PER_ADDRESS_MAX + 9)]
    await asyncio.sleep(0)
    assert world.checks.waiting_count <= WAITING_PER_ADDRESS_MAX
    assert world.counters.refused_logins >= 1
    for task in many:
        task.cancel()
    await asyncio.gather(*many, return_exceptions=True)
    assert world.checks.waiting_count == 0


async def test_a_host_of_ipv6_has_one_share_whatever_address_it_picks(world: World) -> None:
    for number in range(WAITING_PER_ADDRESS_MAX + CONCURRENT_CHECKS_MAX + 5):
        world.ask(f"2001:db8::{number}", "mallory", f"wrong{number}")
    await world.begun(CONCURRENT_CHECKS_MAX)
    assert world.checks.waiting_count <= WAITING_PER_ADDRESS_MAX
