"""The queue of password checks: logins wait here for one of the few worker threads that may check them.

``login_check`` checks a login.

A check takes tens of milliseconds, so a flood of wrong passwords can always be faster.  It must not keep others out:

- The queue has a limit.  When it is full, the address with the most failures, then the most places, gives a place to
  an address with fewer.  Where an address has its part, or is the worst itself, its login with the most failures, then
  the most places, gives one to a login with fewer.  If there is none, the new attempt is refused at once.  A client
  that has gone frees its place.
- Attempts with the same login and the same password are one check, so a fleet that reconnects needs one.
- Addresses without failures come first, then logins without failures; among equals addresses take turns.
- After each failure, the next check of the same login from the same address waits twice as long.
- A proof of SCRAM and a token are cheap to check, so right ones need no place here.  Wrong ones are guesses like any
  other: they fail, wait and count in the same way; tokens in a queue of their own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from engine.consumers.user_quota import network_of
from gateway.process.counters import GatewayCounters

CONCURRENT_CHECKS_MAX: Final = 2
WAITING_MAX: Final = 256  # different passwords, of all addresses
WAITING_PER_ADDRESS_MAX: Final = 64
CLIENTS_PER_CHECK_MAX: Final = 10_000  # clients that wait for the check of the same password
DELAY_FIRST_S: Final = 0.1
DELAY_MAX_S: Final = 5.0
FAILURES_KEPT: Final = 10_000  # addresses, and pairs of address and login; the oldest are forgotten first
FAILURES_KEPT_S: Final = 60.0


@dataclass(slots=True, eq=False)
class _Check:
    """answers: of the clients that wait for it.  proved: whether the login is right, if already known; else None."""

    address: str
    login: str
    passcode: str
    proved: bool | None
    answers: set[asyncio.Future[bool]] = field(default_factory=set)

    def answer(self, is_right: bool) -> None:
        for answer in self.answers:
            if not answer.done():
                answer.set_result(is_right)


class _Failures:
    """Recent failures.  Key: an address, or an address with a login."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], tuple[int, float]] = {}  # key -> count, time of the last one; oldest first

    def count(self, key: tuple[str, ...], now_s: float) -> int:
        count, last_s = self._counts.get(key, (0, now_s))
        return count if now_s - last_s < FAILURES_KEPT_S else 0

    def add(self, key: tuple[str, ...], now_s: float) -> None:
        count = self.count(key, now_s) + 1
        self._counts.pop(key, None)
        if len(self._counts) >= FAILURES_KEPT:
            del self._counts[next(iter(self._counts))]
        self._counts[key] = (count, now_s)

    def due_s(self, key: tuple[str, ...], now_s: float) -> float:
        """Return when the next check may begin."""
        count = self.count(key, now_s)
        if count == 0:
            return now_s
        return self._counts[key][1] + min(DELAY_FIRST_S * 2.0 ** min(count - 1, 32), DELAY_MAX_S)

    def forget(self, key: tuple[str, ...]) -> None:
        self._counts.pop(key, None)


class LoginQueue:
    """check: returns whether a password is right; runs on a worker thread.

    places, address_places: of different passwords that wait, in all and of one address.  wait_most_s: until a client
    is refused that has no answer yet; None for no limit beside its connection's own.
    """

    def __init__(
        self,
        check: Callable[[str, str], bool],
        counters: GatewayCounters,
        places: int = WAITING_MAX,
        address_places: int = WAITING_PER_ADDRESS_MAX,
        wait_most_s: float | None = None,
    ) -> None:
        self._check = check
        self._counters = counters
        self._places = places
        self._address_places = address_places
        self._wait_most_s = wait_most_s
        self._waiting: dict[tuple[str, str], _Check] = {}  # in the order of arrival
        self._per_address: dict[str, int] = {}
        self._running: dict[tuple[str, str], _Check] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = _Failures()
        self._turn = 0
        self._turns: dict[str, int] = {}  # waiting address -> when it was last chosen
        self._wake: asyncio.TimerHandle | None = None
        self._proof_count = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def check(self, address: str, login: str, passcode: str) -> bool:
        """Say whether ``login`` may connect with ``passcode``; also False if the queue is full or takes too long.

        Cancel it when the client has gone.
        """
        return await self._answer(network_of(address), (login, passcode), None)

    async def proved(self, address: str, login: str, is_right: bool) -> bool:
        """Say the same of a login whose proof (SCRAM) has been checked, or of a wrong token, when its turn has come."""
        address = network_of(address)
        pair = (address, login)
        is_first = self._failures.count(pair, asyncio.get_running_loop().time()) == 0
        others = (*self._running.values(), *self._waiting.values())
        if is_right and is_first and all((one.address, one.login) != pair for one in others):
            return True
        # Each proof has a key of its own: no client's password begins like this, because it would end at the NUL.
        self._proof_count += 1
        return await self._answer(address, (login, f"\0{self._proof_count}"), is_right)

    async def _answer(self, address: str, key: tuple[str, str], proved: bool | None) -> bool:
        one = self._running.get(key) or self._waiting.get(key) or self._added(address, key, proved)
        if one is None or len(one.answers) >= CLIENTS_PER_CHECK_MAX:
            self._counters.refused_logins += 1
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        one.answers.add(answer)
        self._start()
        try:
            async with asyncio.timeout(self._wait_most_s):
                return await answer
        except TimeoutError:
            self._counters.refused_logins += 1
            return False
        finally:
            one.answers.discard(answer)
            if not one.answers and self._waiting.get(key) is one:
                self._remove(key)

    def _added(self, address: str, key: tuple[str, str], proved: bool | None) -> _Check | None:
        if self._per_address.get(address, 0) >= self._address_places:
            has_place = self._take_place_of_login(address, key[0])
        elif len(self._waiting) >= self._places:
            has_place = self._take_place(address) or self._take_place_of_login(address, key[0])
        else:
            has_place = True
        if not has_place:
            return None
        one = self._waiting[key] = _Check(address, *key, proved)
        self._per_address[address] = self._per_address.get(address, 0) + 1
        return one

    def _take_place(self, address: str) -> bool:
        """Refuse the last waiting check of the worst address; return False if the worst one is asking."""
        now_s = asyncio.get_running_loop().time()
        places = self._per_address

        def rank(other: str) -> tuple[int, int]:
            return self._failures.count((other,), now_s), places.get(other, 0) + (other == address)

        worst = max(places, key=rank)
        if rank(worst) <= rank(address):
            return False
        self._give_up(next(key for key, one in reversed(self._waiting.items()) if one.address == worst))
        return True

    def _take_place_of_login(self, address: str, login: str) -> bool:
        """Do the same among the logins of one address: guesses of one do not keep out another."""
        now_s = asyncio.get_running_loop().time()
        places = Counter(one.login for one in self._waiting.values() if one.address == address)

        def rank(other: str) -> tuple[int, int]:
            return self._failures.count((address, other), now_s), places[other] + (other == login)

        worst = max(places, key=rank, default=login)
        if rank(worst) <= rank(login):
            return False
        self._give_up(
            next(key for key, one in reversed(self._waiting.items()) if (one.address, one.login) == (address, worst))
        )
        return True

    def _give_up(self, key: tuple[str, str]) -> None:
        """Refuse a waiting check."""
        given_up = self._remove(key)
        self._counters.refused_logins += len(given_up.answers)
        given_up.answer(False)

    def _remove(self, key: tuple[str, str]) -> _Check:
        one = self._waiting.pop(key)
        left = self._per_address.pop(one.address) - 1
        if left:
            self._per_address[one.address] = left
        else:
            self._turns.pop(one.address, None)
        return one

    def _start(self) -> None:
        """Begin the checks that may begin, and set a timer for the next one."""
        loop = asyncio.get_running_loop()
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        while self._waiting and len(self._running) < CONCURRENT_CHECKS_MAX:
            now_s = loop.time()
            due_s, key = self._next(now_s)
            if due_s > now_s:
                self._wake = loop.call_at(due_s, self._start)
                return
            one = self._remove(key)
            if one.address in self._per_address:
                self._turn += 1
                self._turns[one.address] = self._turn
            self._running[key] = one
            task = loop.create_task(self._run(key, one))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self, now_s: float) -> tuple[float, tuple[str, str]]:
        """Return the next check, and when it may begin."""
        failures = self._failures
        best: tuple[float, int, int, int] | None = None
        chosen = ("", "")
        for key, one in self._waiting.items():
            pair = (one.address, one.login)
            rank = (
                max(now_s, failures.due_s(pair, now_s)),
                failures.count((one.address,), now_s),
                failures.count(pair, now_s),
                self._turns.get(one.address, 0),
            )
            if best is None or rank < best:
                best, chosen = rank, key
        assert best is not None
        return best[0], chosen

    async def _run(self, key: tuple[str, str], one: _Check) -> None:
        is_right = False
        try:
            is_right = one.proved is True
            if one.proved is None:
                is_right = await asyncio.to_thread(self._check, one.login, one.passcode)
        finally:
            del self._running[key]
            pair = (one.address, one.login)
            if is_right:
                self._failures.forget(pair)
            else:
                self._counters.failed_logins += 1
                now_s = asyncio.get_running_loop().time()
                self._failures.add((one.address,), now_s)
                self._failures.add(pair, now_s)
            one.answer(is_right)
            self._start()
