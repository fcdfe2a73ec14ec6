"""Settlements that gather until somebody waits for them, and become one record for each consumer."""

from __future__ import annotations

from typing import Final

from engine.backlog.settlement import SettlementBatch
from engine.consumers.consumer import Consumer
from engine.ports.store import Store

UNLOGGED_TURNS: Final = 64  # for so many turns settlements that no one waits for gather into one record a consumer


class SettlementLog:
    """waiting: batches with something to flush.  is_due: a confirmation of this turn waits for them."""

    __slots__ = ("waiting", "is_due", "_store", "_turns")

    def __init__(self, store: Store) -> None:
        self.waiting: list[tuple[SettlementBatch, Consumer | None]] = []
        self.is_due = False
        self._store = store
        self._turns = 0

    def end_turn(self) -> None:
        """Append what has gathered, if it is wanted or has waited long enough."""
        self._turns += 1
        if self.is_due or self._turns >= UNLOGGED_TURNS:
            self.flush()

    def flush(self) -> int:
        """Append what was settled and put off; return the offset that confirmations of it wait for."""
        self._turns = 0
        self.is_due = False
        store = self._store
        for batch, consumer in self.waiting:
            if consumer is not None:
                if consumer.queue.is_closed:
                    batch.following = -1  # committed after its queue had ended
                    continue
                batch.record_id = self.record_of(consumer)
            batch.flush(store)
        self.waiting.clear()
        return store.append_offset()

    def record_of(self, consumer: Consumer) -> int:
        """Return the number of the consumer's metadata record, appended at its first settlement."""
        if consumer.batch.record_id == 0:
            number = self._store.open_consumer(consumer.queue.destination_id, consumer.description())
            consumer.batch.record_id = number
            if consumer.is_closed:  # what it settled last is only now appended
                self._store.close_consumer(consumer.batch.record_id)
        return consumer.batch.record_id
