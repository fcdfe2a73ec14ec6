"""Frames that wait at a gate: if too much waits, the connection ends."""

from __future__ import annotations

from typing import Generic

from engine.open_transaction import Transaction
from engine.sources.composite import Destination
from protocols.blocked_sends import BlockedSends, Waiting, addresses_of
from protocols.errors import ParkedTooMuch


class BlockedFrames(BlockedSends[Waiting], Generic[Waiting]):
    __slots__ = ()

    def wait(self, one: Waiting, destination: Destination, gate: int) -> None:
        """Let ``one`` wait at the gate of ``destination``.  Raises: ParkedTooMuch."""
        if not self.park(one, destination, gate):
            raise ParkedTooMuch(
                f"{self.size_bytes + one.size_bytes} octets of messages wait for {destination.uri()}, which accepts "
                f"nothing now; the limit for a connection that also receives is {self.limit.most_bytes}"
            )


def addresses_sent_to(transaction: Transaction, behind: Destination) -> list[str]:
    """Return the addresses that a commit waits for, ``behind`` first."""
    return addresses_of(behind) + [sent_to.uri() for sent_to, _ in transaction.sends]
