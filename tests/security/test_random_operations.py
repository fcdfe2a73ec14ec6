"""Clients of both protocols and of HTTP do anything at all; whoever is honest beside them notices nothing of it."""

from __future__ import annotations

import random
import time
from typing import Final

import pytest

from tests.support.hostile.aftermath import (
    MIB,
    Drain,
    check_faults,
    check_nothing_held,
    kept_numbers,
    memory_bytes,
    metrics,
    state_of,
)
from tests.support.hostile.honest_clients import AmqpTrips, DueTrips, StompTrips, Trips
from tests.support.hostile.hostile_config import AMPLE, HONEST, TIGHT, hostile_config, stock_config
from tests.support.hostile.hostile_crowd import Crowd, RealNetwork
from tests.support.long_run import LongRun
from tests.support.process.gateway_process import GatewayProcess, StartGateway

SEEDS: Final = (1,)
OPERATIONS: Final = 3_000  # of a life
LONG_OPERATIONS: Final = 15_000
LIVES_MOST: Final = 3
TRIPS: Final = 5  # that each honest client completes while a crowd is there
# What an allocator keeps, and the buffers of sockets that were there: by the limits of the gateway it is less.
MEMORY_SLACK_BYTES: Final = 96 * MIB
# The queues are empty by then; a topic's durable subscriptions, whose names nobody knows any more, may keep a little.
MEMORY_LEFT_BYTES: Final = 4 * MIB


class RandomRun:
    """One store with one or more lives; each begins with honest clients and a new crowd.

    slowest_s: the longest round trip of an honest client.
    """

    def __init__(
        self,
        start_gateway: StartGateway,
        seed: int,
        operations: int,
        lives_most: int,
        is_stock: bool = False,
        but_http: bool = False,
    ) -> None:
        """is_stock: the gateway has the limits that it has of itself.

        but_http: senders and browsers over HTTP, which stay for a minute, are not waited for.  The simulation of
        hostile clients waits for them, with a virtual clock.
        """
        self._but_http = but_http
        self._draw = random.Random(seed)
        self._operations = operations
        self._lives = self._draw.randrange(1, lives_most + 1)
        dialect = self._draw.choice(("penstock", "activemq"))
        # Where memory is tight the honest would only wait with all others, so nobody is there to be measured.
        self._is_tight = self._draw.randrange(3) == 0 and not is_stock
        tight = TIGHT if self._is_tight else AMPLE
        self.gateway: GatewayProcess = start_gateway(
            stock_config(dialect) if is_stock else hostile_config(dialect, tight)
        )
        self.gateway.http_login = HONEST
        self._confirmed: set[int] = set()
        self._number = 0
        self.slowest_s = 0.0

    def run(self) -> None:
        for life in range(self._lives):
            is_last = life == self._lives - 1
            self._live(is_killed=not is_last and self._draw.randrange(4) != 0)
            if not is_last:
                self.gateway.restart()
        self._end()

    def _live(self, is_killed: bool) -> None:
        gateway = self.gateway
        before_bytes = memory_bytes(gateway)
        trips = None if self._is_tight else StompTrips(gateway, self._confirmed, self._number)
        honest: list[Trips] = [] if trips is None else [trips, AmqpTrips(gateway), DueTrips(gateway)]
        crowd = Crowd(RealNetwork(gateway), self._draw)
        for number in range(self._operations):
            crowd.step()
            if number % 200 == 0:
                assert gateway.is_running, f"the gateway has ended; its log: {gateway.log.read_text()[-6_000:]}"
        for one in honest:
            one.more(TRIPS)
        if is_killed:
            gateway.kill9()
            crowd.cut()
        else:
            crowd.leave()
        for one in honest:
            one.stop(is_killed)
            self.slowest_s = max(self.slowest_s, one.slowest_s)
        if trips is not None:
            self._number = trips.number
        if not is_killed:
            self._check_life(before_bytes)

    def _check_life(self, before_bytes: int) -> None:
        gateway = self.gateway
        check_nothing_held(gateway, but_http=self._but_http)
        check_faults(gateway)
        Drain(gateway).run()
        check_nothing_held(gateway, but_http=self._but_http)
        left_bytes = metrics(gateway)["penstock_memory_bytes"]
        assert left_bytes <= MEMORY_LEFT_BYTES, f"{left_bytes:.0f} bytes of messages are in memory of empty queues"
        grown_bytes = memory_bytes(gateway) - before_bytes
        assert grown_bytes <= MEMORY_SLACK_BYTES, f"the process has grown by {grown_bytes / MIB:.0f} MiB"

    def _end(self) -> None:
        gateway = self.gateway
        kept = kept_numbers(gateway)
        assert len(kept) == len(set(kept)), "a message that was kept is there twice"
        lost = self._confirmed - set(kept)
        assert not lost, f"confirmed and not there: {sorted(lost)[:20]}"
        check_faults(gateway)
        assert gateway.terminate() == 0
        gateway.check_store()


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_clients_do_others_go_on(seed: int, start_gateway: StartGateway) -> None:
    RandomRun(start_gateway, seed, OPERATIONS, 1, but_http=True).run()


@pytest.mark.parametrize("is_stock", [False, True], ids=["small limits", "stock limits"])
def test_more_seeds_with_kills(is_stock: bool, long_run: LongRun, start_gateway: StartGateway) -> None:
    def run(seed: int) -> None:
        began = time.monotonic()
        one = RandomRun(start_gateway, seed, LONG_OPERATIONS, LIVES_MOST, is_stock)
        try:
            one.run()
        except Exception as error:
            told = f"seed {seed}: {error!r}; its log is {one.gateway.log}; its state:\n{state_of(one.gateway)}"
            raise AssertionError(told) from error
        print(f"seed {seed}: {time.monotonic() - began:.0f} s, the slowest round trip {one.slowest_s:.2f} s")

    long_run.take(run)
