"""Answers about what the log must keep: refused while the disk takes nothing, sent once it is durable."""

from __future__ import annotations

import asyncio
from typing import Final

from engine.broker import Broker
from engine.values.errors import StoreError
from gateway.loop.engine_loop import EngineLoop

DURABLE_MS: Final = 5_000
DURABLE_POLL_S: Final = 0.005


def check_disk(broker: Broker, undone: str) -> None:
    """Raises: StoreError while the disk takes nothing.  undone: what was not done, as in "nothing was cancelled"."""
    if not broker.store.is_accepting():
        raise StoreError(f"{undone}, for the disk takes nothing: {_reason(broker)}")


async def until_durable(engine_loop: EngineLoop, done: str, otherwise: str) -> None:
    """Wait until what was done survives a crash.

    done: what it was, as in "cancelled 3 messages".  otherwise: what a crash before then leaves.
    Raises: StoreError when that takes longer than DURABLE_MS, or the disk fails.
    """
    broker = engine_loop.broker
    store = broker.store
    offset = store.append_offset()
    until_ms = broker.context.clock.monotonic_ms() + DURABLE_MS
    while store.durable_offset() < offset and not engine_loop.is_shut:
        if not store.is_accepting() or broker.context.clock.monotonic_ms() >= until_ms:
            raise StoreError(f"{done}, but the disk has not taken that yet: {_reason(broker)}; {otherwise}")
        broker.sync()
        await asyncio.sleep(DURABLE_POLL_S)


def _reason(broker: Broker) -> str:
    return broker.store_events.failure or f"nothing was synced for {DURABLE_MS} ms"
