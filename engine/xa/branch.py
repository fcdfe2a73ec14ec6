"""One branch of a distributed transaction, on its way from BEGIN to its outcome."""

from __future__ import annotations

from engine.open_transaction import Transaction
from engine.sources.identified import IdKey
from engine.sources.queue import Queue, queue_of
from engine.values.stored import Range
from engine.values.xid import Xid
from engine.xa.held_entries import HeldEntries


class Branch:
    """user: login that began it.

    spoiled: why it can only be rolled back, "" if it can be prepared.
    records: where the log has it; None while it is not prepared.  prepared_ms: when that was, wall clock.
    replay_key: by which its client would begin it again after it has lost its connection; None if it never does.
    held, keys: what it had acknowledged, and the duplicate ids of its messages, before the last start of the gateway.
    """

    __slots__ = ("xid", "user", "transaction", "spoiled", "records", "prepared_ms", "replay_key", "held", "keys")

    def __init__(self, xid: Xid, user: str, transaction: Transaction) -> None:
        self.xid = xid
        self.user = user
        self.transaction = transaction
        self.spoiled = ""
        self.records: Range | None = None
        self.prepared_ms = 0
        self.replay_key: IdKey | None = None
        self.held: list[HeldEntries] = []
        self.keys: list[IdKey] = []

    def has_work(self) -> bool:
        return self.transaction.action_count > 0

    def holds(self, queue: Queue, priority: int, queue_offset: int) -> bool:
        """Say whether it has acknowledged this entry."""
        if any(
            held.queue is queue and held.priority == priority and queue_offset in held.offsets for held in self.held
        ):
            return True
        return any(
            one.message.queue_offset == queue_offset and one.lane.priority == priority and queue_of(one.lane) is queue
            for one in self.transaction.accepted
        )

    def memory_bytes(self) -> int:
        return self.transaction.memory_bytes()
