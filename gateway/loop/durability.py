"""Commands that the log must keep: refused while the disk accepts nothing, answered once they are durable."""

from __future__ import annotations

import asyncio
from typing import Final

from engine.values.errors import StoreError
from gateway.loop.engine_loop import EngineLoop

DURABLE_MS: Final = 5_000
DURABLE_POLL_S: Final = 0.005


def check_disk(engine_loop: EngineLoop, undone: str) -> None:
    """Raises: StoreError while the disk accepts nothing.  undone: for its text, as in "nothing was cancelled"."""
    if not engine_loop.store.is_accepting():
        raise StoreError(f"{undone}, because the disk refuses writes: {_reason(engine_loop)}")


async def until_durable(engine_loop: EngineLoop, done: str, otherwise: str) -> None:
    """Wait until a command's changes survive a crash.

    done: the changes, as in "cancelled 3 messages".  otherwise: the effect of a crash before that.
    Raises: StoreError if that takes longer than DURABLE_MS, the disk fails, or the engine stops.
    """
    store = engine_loop.store
    offset = store.append_offset()
    until_ms = engine_loop.clock.monotonic_ms() + DURABLE_MS
    while store.durable_offset() < offset:
        is_late = engine_loop.clock.monotonic_ms() >= until_ms
        if engine_loop.is_shut or is_late or not store.is_accepting():
            raise StoreError(f"{done}, but the disk has not taken that yet: {_reason(engine_loop)}; {otherwise}")
        engine_loop.broker.sync()
        await asyncio.sleep(DURABLE_POLL_S)


def _reason(engine_loop: EngineLoop) -> str:
    if engine_loop.is_shut:
        return "the gateway stops"
    return engine_loop.store_events.failure or f"nothing was synced for {DURABLE_MS} ms"
