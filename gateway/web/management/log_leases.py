"""Leases of readers over HTTP: retention keeps what one reads, as for a reader on this machine.

A lease is short, and its reader renews it, so it ends soon after a reader that is gone.  All renewals together last at
most ``store.retention.lease-max``.  It is a file like any other lease, so a restarted gateway respects it to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.store.read.leases import Lease, end_lease, write_lease
from engine.store.read.reader import store_id_of
from engine.values.errors import LimitReached
from gateway.process.clock import SYSTEM_CLOCK
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.limits.thread_turns import ThreadTurns
from gateway.web.rest.client_registry import new_token

PER_HOLDER_MOST: Final = 8
MOST: Final = 64


class NoLeases(Exception):
    """Retention waits for no reader."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """since_ms: when it began, wall clock."""

    token: str
    holder: str
    lease: Lease
    since_ms: int


class LogLeases:
    """lease_max_ms: with all its renewals; 0: retention waits for no reader.  memory: of answers.

    _held: by token, also some that are over.  _over: tokens and readers of these, whose files are still there.
    """

    def __init__(
        self,
        directory: str,
        lease_max_ms: int,
        memory: RequestMemory,
        now_ms: Callable[[], int] = SYSTEM_CLOCK.wall_ms,
    ) -> None:
        self._directory = Path(directory)
        self._lease_max_ms = lease_max_ms
        self._now_ms = now_ms
        self._turns = ThreadTurns(memory)
        self._held: dict[str, HeldLease] = {}
        self._over: list[HeldLease] = []

    async def begin(self, address: str, holder: str, reader: str, from_offset: int, lease_ms: int) -> HeldLease:
        """Raises: NoLeases; LimitReached; StoreError; OSError."""
        self._forget()
        if not self._lease_max_ms:
            raise NoLeases("store.retention.lease-max is 0, so retention waits for no reader")
        count = Counter(one.holder for one in self._held.values())
        if count[holder] >= PER_HOLDER_MOST or count.total() >= MOST:
            raise LimitReached(
                f"{holder} has {count[holder]} leases of the log and all have {count.total()}; "
                f"allowed are {PER_HOLDER_MOST} and {MOST}"
            )
        lease = Lease(f"{reader} of {holder} over HTTP", from_offset, 0)
        begun = HeldLease(new_token(), holder, lease, self._now_ms())
        return await self._written(address, begun, lease_ms)

    async def renew(self, address: str, holder: str, token: str, lease_ms: int) -> HeldLease:
        """Raises: LookupError if it is over, or another's; StoreError; OSError."""
        self._forget()
        return await self._written(address, self._of(holder, token), lease_ms)

    async def end(self, address: str, holder: str, token: str) -> None:
        """Raises: LookupError if it is over, or another's."""
        ended = self._of(holder, token)
        del self._held[token]
        await self._turns.done(address, lambda: self._remove(ended))

    async def _written(self, address: str, held: HeldLease, lease_ms: int) -> HeldLease:
        now_ms = self._now_ms()
        until_ms = min(now_ms + lease_ms, held.since_ms + self._lease_max_ms)
        lease = Lease(held.lease.reader, held.lease.from_offset, until_ms)
        written = HeldLease(held.token, held.holder, lease, held.since_ms)
        self._held[held.token] = written  # it counts while it is being written

        def write() -> None:
            while self._over:
                self._remove(self._over.pop())
            write_lease(self._directory, store_id_of(self._directory), lease, now_ms, held.token)
            if held.token not in self._held:
                self._remove(held)  # it was ended while its renewal waited for this turn

        try:
            await self._turns.done(address, write)
        except BaseException:
            self._over.append(self._held.pop(held.token, held))
            raise
        return written

    def _of(self, holder: str, token: str) -> HeldLease:
        held = self._held.get(token)
        if held is None or held.holder != holder:
            raise LookupError(f"no lease {token[:80]!r} of {holder}: it is over, or another's")
        return held

    def _forget(self) -> None:
        """Forget leases that are over; their files, which have no effect any more, are removed with the next write."""
        now_ms = self._now_ms()
        for token in [token for token, one in self._held.items() if one.lease.until_ms <= now_ms]:
            self._over.append(self._held.pop(token))

    def _remove(self, held: HeldLease) -> None:
        end_lease(self._directory, held.lease.reader, held.token)
