"""The composition root: builds every part, starts them in order, stops them in reverse."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from typing import Final

import uvloop

from config.matching import AddressMatcher
from config.model import ServerConfig
from engine.broker import Broker
from engine.stats import BrokerStats
from engine.store.file_store import FileStore
from engine.store.files import RealFiles
from engine.store.recovery import LogRange
from engine.store.settings import StoreSettings
from gateway.clock import SystemClock
from gateway.engine_loop import EngineLoop, LoopTimers
from gateway.listener import StompListener
from gateway.security import Security
from gateway.web.source import StatsSource
from gateway.workers import ThreadWorkers

STOP_PATIENCE_S: Final = 5.0  # for peers to take what they are owed
DISK_PATIENCE_S: Final = 10.0
FAILED: Final = 1  # exit code
GC_THRESHOLDS: Final = (50_000, 20, 50)

log: Final = logging.getLogger("penstock")


class LiveStats(StatsSource):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def stats(self) -> BrokerStats:
        return self._broker.stats()


def serve(config: ServerConfig, json_output: bool, skip_corruption: bool = False) -> int:
    """Run the gateway until SIGTERM or SIGINT; return the exit code.

    skip_corruption: go on past damage in the middle of the log, which is lost; else it is an error.

    Raises: StoreLocked, StoreCorrupt, ConfigError, OSError if it cannot start.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    security = Security(config)
    return uvloop.run(_serve(config, security, json_output, skip_corruption))


async def _serve(config: ServerConfig, security: Security, json_output: bool, skip_corruption: bool) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    clock = SystemClock()
    timers = LoopTimers(loop, clock)
    workers = ThreadWorkers(loop)
    settings = store_settings(config)
    store = FileStore(config.data_directory, RealFiles(), workers, clock, timers, settings, skip_corruption)
    _log_recovery(store)
    broker = Broker(store, clock, timers, AddressMatcher(config.addresses), config.memory_limit_bytes)
    engine_loop = EngineLoop(loop, broker, store, clock)
    timers.engine_loop = engine_loop
    workers.attach(engine_loop)
    listener = StompListener(config, broker, engine_loop, security)
    try:
        await listener.start()
        from gateway.web.server import HttpServer  # a fifth of the start-up time: after STOMP accepts

        web = await HttpServer.start(config.listeners.http, LiveStats(broker), security)
        _tune_garbage_collection()
        _announce({"stomp": str(listener.endpoint), "http": str(web.endpoint)}, config, json_output)
        if await _stopped_by_fault(stopping, engine_loop.failed):
            return FAILED
        log.info("stopping")
        await web.stop()
        await listener.stop(STOP_PATIENCE_S)
        engine_loop.end_turn()
    finally:
        if not engine_loop.failed.is_set():
            if await workers.drained(DISK_PATIENCE_S):
                store.close()
            else:
                log.error("the disk does not answer; stopping without closing the store, the next start recovers it")
    return 0


async def _stopped_by_fault(stopping: asyncio.Event, failed: asyncio.Event) -> bool:
    waits = [asyncio.ensure_future(event.wait()) for event in (stopping, failed)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return failed.is_set()


def _log_recovery(store: FileStore) -> None:
    report = store.report
    if report.is_new:
        return
    if report.is_clean:
        log.info("store: closed cleanly, durable up to log offset %d", store.durable_offset())
    else:
        log.info(
            "store: not closed cleanly; replayed log offsets %d to %d, %d records",
            report.replayed_from,
            report.replayed_to,
            report.replayed_records,
        )
    if report.rebuilt:
        log.warning("store: consume queues rebuilt: %s", report.rebuilt)
    if report.cut is not None:
        log.warning("store: a torn tail was cut off: %s", _place(report.cut))
    for lost in report.skipped:
        log.error("store: corruption skipped as asked for, what stood there is lost: %s", _place(lost))


def _place(lost: LogRange) -> str:
    return f"{lost.path} at position {lost.position}, log offsets {lost.offset} to {lost.end}: {lost.reason}"


def store_settings(config: ServerConfig) -> StoreSettings:
    return StoreSettings(
        segment_bytes=config.store.segment_bytes,
        flush=config.store.flush,
        flush_interval_ms=config.store.flush_interval_ms,
        retention_time_ms=config.store.retention.time_ms,
        retention_bytes=config.store.retention.bytes,
    )


def _tune_garbage_collection() -> None:
    """Messages are freed by reference counts; cycles are rare, so the collector runs rarely and over little."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _announce(listeners: dict[str, str], config: ServerConfig, json_output: bool) -> None:
    if json_output:
        print(json.dumps({"listeners": listeners, "pid": os.getpid()}), flush=True)
        return
    print(f"Penstock is running, pid {os.getpid()}, store in {os.path.abspath(config.data_directory)}")
    for name, uri in listeners.items():
        print(f"  {name:6} {uri}")
    sys.stdout.flush()
