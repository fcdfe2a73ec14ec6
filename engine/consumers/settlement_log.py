"""Settlements that gather until somebody waits for them, and become one record for each consumer."""

from __future__ import annotations

from typing import Final

from engine.backlog.settlement import SettlementBatch
from engine.consumers.consumer import Consumer
from engine.ports.store import Store, StoreRecords

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
        """Return the number of the consumer's metadata record, appended at its first settlement.

        Who asks names it in a record of this turn.  The store forgets records that nothing will name any more, so that
        of a consumer that has gone stays open until then.
        """
        batch = consumer.batch
        if batch.record_id == 0:
            batch.record_id = self._store.open_consumer(consumer.queue.destination_id, consumer.description())
            if consumer.is_closed:
                self.waiting.append((_Closing(consumer), None))
        return batch.record_id

    def closed(self, consumer: Consumer) -> None:
        """A consumer has gone; if what it settled is logged later, that may still name it."""
        if consumer.batch.record_id:
            closing = _Closing(consumer)
            if consumer.batch.following < 0:
                closing.flush(self._store)
            else:
                self.waiting.append((closing, None))


class _Closing(SettlementBatch):
    """Closes the record of a consumer behind what names it; whatever names the consumer later opens another one."""

    __slots__ = ("_consumer",)

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(0, 0, 0)
        self._consumer = consumer

    def flush(self, store: StoreRecords) -> None:
        batch = self._consumer.batch
        if batch.record_id:
            store.close_consumer(batch.record_id)
            batch.record_id = 0
