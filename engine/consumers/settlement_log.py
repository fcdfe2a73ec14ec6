"""Settlements that gather until a confirmation waits for them, and then become one record per consumer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.backlog.settlement import SettlementBatch
from engine.consumers.consumer import Consumer
from engine.ports.store import Store, StoreRecords

UNLOGGED_TURNS: Final = 64  # settlements that no confirmation waits for are gathered for this many turns


@dataclass(slots=True, eq=False)
class SettlementLog:
    """waiting: batches with something to flush.  turns_left: until then; 1: a confirmation of this turn waits."""

    _store: Store
    waiting: list[tuple[SettlementBatch, Consumer | None]] = field(default_factory=list)
    turns_left: int = UNLOGGED_TURNS

    def end_turn(self) -> None:
        """Append what has gathered, if a confirmation needs it or it has waited long enough."""
        left = self.turns_left - 1
        self.turns_left = left
        if left <= 0:
            self.flush()

    def flush(self) -> int:
        """Append the gathered settlements; return the offset for which their confirmations wait."""
        self.turns_left = UNLOGGED_TURNS
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

        The caller names it in a record of this turn.  The store forgets records that nothing will name any more, so the
        record of a consumer that has gone stays open until then.
        """
        batch = consumer.batch
        if batch.record_id == 0:
            batch.record_id = self._store.open_consumer(consumer.queue.destination_id, consumer.description())
            if consumer.is_closed:
                self.waiting.append((_Closing(consumer), None))
        return batch.record_id

    def closed(self, consumer: Consumer) -> None:
        """A consumer has gone; settlements of it that are logged later may still name it."""
        if consumer.batch.record_id:
            closing = _Closing(consumer)
            if consumer.batch.following < 0:
                closing.flush(self._store)
            else:
                self.waiting.append((closing, None))


class _Closing(SettlementBatch):
    """Closes a consumer's record after the last one that names it; a later use of the consumer opens another."""

    __slots__ = ("_consumer",)

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(0, 0, 0)
        self._consumer = consumer

    def flush(self, store: StoreRecords) -> None:
        batch = self._consumer.batch
        if batch.record_id:
            store.close_consumer(batch.record_id)
            batch.record_id = 0
