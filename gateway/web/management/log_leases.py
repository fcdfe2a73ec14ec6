"""Leases of readers over HTTP: retention keeps what one reads, as for a reader on this machine.

A lease is short, and its reader renews it, so it ends soon after a reader that is gone.  All renewals together last at
most ``store.retention.lease-max``.  It is a file like any other lease, so retention needs nobody else.  A gateway that
starts goes on with those of the one before, and gives each reader time to find it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from engine.store.read.leases import (
    LEASE_MOST_MS,
    Lease,
    ServedLease,
    lease_name,
    remove_lease,
    served_leases,
    write_served_lease,
)
from engine.store.read.reader import store_id_of
from engine.values.errors import LimitReached, StoreError
from gateway.process.clock import SYSTEM_CLOCK
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.limits.thread_turns import ThreadTurns
from gateway.web.rest.client_registry import new_token

PER_HOLDER_MOST: Final = 8
MOST: Final = 64


class NoLeases(Exception):
    """Retention waits for no reader."""


class LogLeases:
    """lease_max_ms: with all its renewals; 0: retention waits for no reader.  memory: of answers.

    _held: by the names of their files, also some that are over.  _over: names of further ones whose files are there.
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
        self._held: dict[str, ServedLease] = {}
        self._over: list[str] = []

    def adopt(self) -> None:
        """Go on with the leases of the gateway before; what the disk refuses ends at its deadline.

        Each is good for as long as one renewal at most, however long nobody was there to renew it.
        """
        now_ms = self._now_ms()
        try:
            store_id = store_id_of(self._directory)
            for left in served_leases(self._directory, store_id):
                until_ms = min(now_ms + LEASE_MOST_MS, left.since_ms + self._lease_max_ms)
                if until_ms <= now_ms:
                    self._over.append(left.name)
                    continue
                adopted = replace(left, lease=replace(left.lease, until_ms=until_ms))
                write_served_lease(self._directory, store_id, adopted, now_ms)
                self._held[left.name] = adopted
        except (OSError, StoreError):
            pass

    async def begin(
        self, address: str, holder: str, reader: str, from_offset: int, lease_ms: int
    ) -> tuple[str, ServedLease]:
        """Return a token of the new lease besides.  Raises: NoLeases; LimitReached; StoreError; OSError."""
        self._forget()
        if not self._lease_max_ms:
            raise NoLeases("store.retention.lease-max is 0, so retention waits for no reader")
        count = Counter(one.holder for one in self._held.values())
        if count[holder] >= PER_HOLDER_MOST or count.total() >= MOST:
            raise LimitReached(
                f"{holder} has {count[holder]} leases of the log and all have {count.total()}; "
                f"allowed are {PER_HOLDER_MOST} and {MOST}"
            )
        token = new_token()
        lease = Lease(f"{reader} of {holder} over HTTP", from_offset, 0)
        begun = ServedLease(lease_name(lease.reader, token), holder, lease, self._now_ms())
        return token, await self._written(address, begun, lease_ms)

    async def renew(self, address: str, holder: str, token: str, lease_ms: int) -> ServedLease:
        """Raises: LookupError if it is over, or another's; StoreError; OSError."""
        self._forget()
        return await self._written(address, self._of(holder, token), lease_ms)

    async def end(self, address: str, holder: str, token: str) -> None:
        """Raises: LookupError if it is over, or another's."""
        ended = self._of(holder, token)
        del self._held[ended.name]
        await self._turns.done(address, lambda: remove_lease(self._directory, ended.name))

    async def _written(self, address: str, held: ServedLease, lease_ms: int) -> ServedLease:
        now_ms = self._now_ms()
        until_ms = min(now_ms + lease_ms, held.since_ms + self._lease_max_ms)
        written = replace(held, lease=replace(held.lease, until_ms=until_ms))
        self._held[held.name] = written  # it counts while it is being written

        def write() -> None:
            while self._over:
                remove_lease(self._directory, self._over.pop())
            write_served_lease(self._directory, store_id_of(self._directory), written, now_ms)
            if held.name not in self._held:
                remove_lease(self._directory, held.name)  # it was ended while its renewal waited for this turn

        try:
            await self._turns.done(address, write)
        except BaseException:
            self._held.pop(held.name, None)
            self._over.append(held.name)
            raise
        return written

    def _of(self, holder: str, token: str) -> ServedLease:
        for name, held in self._held.items():
            if held.holder == holder and lease_name(held.lease.reader, token) == name:
                return held
        raise LookupError(f"no lease {token[:80]!r} of {holder}: it is over, or another's")

    def _forget(self) -> None:
        """Forget leases that are over; their files, which have no effect any more, are removed with the next write."""
        now_ms = self._now_ms()
        over = [name for name, one in self._held.items() if one.lease.until_ms <= now_ms]
        for name in over:
            del self._held[name]
        self._over += over
