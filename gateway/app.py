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
from engine.store.settings import StoreSettings
from gateway.clock import SystemClock
from gateway.engine_loop import EngineLoop, LoopTimers
from gateway.listener import StompListener
from gateway.security import Security
from gateway.web.source import StatsSource
from gateway.workers import ThreadWorkers

STOP_PATIENCE_S: Final = 5.0  # for peers to take what they are owed
GC_THRESHOLDS: Final = (50_000, 20, 50)

log: Final = logging.getLogger("penstock")


class LiveStats(StatsSource):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def stats(self) -> BrokerStats:
        return self._broker.stats()


def serve(config: ServerConfig, json_output: bool) -> int:
    """Run the gateway until SIGTERM or SIGINT; return the exit code.

    Raises: StoreLocked, StoreCorrupt, ConfigError, OSError if it cannot start.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    security = Security(config)
    return uvloop.run(_serve(config, security, json_output))


async def _serve(config: ServerConfig, security: Security, json_output: bool) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    clock = SystemClock()
    timers = LoopTimers(loop, clock)
    workers = ThreadWorkers(loop)
    store = FileStore(config.data_directory, RealFiles(), workers, clock, timers, store_settings(config))
    try:
        broker = Broker(store, clock, timers, AddressMatcher(config.addresses), config.memory_limit_bytes)
        engine_loop = EngineLoop(loop, broker, store, clock)
        timers.engine_loop = engine_loop
        workers.attach(engine_loop)
        listener = StompListener(config, broker, engine_loop, security)
        await listener.start()
        from gateway.web.server import HttpServer  # a fifth of the start-up time: after STOMP accepts

        web = await HttpServer.start(config.listeners.http, LiveStats(broker), security)
        _tune_garbage_collection()
        _announce({"stomp": str(listener.endpoint), "http": str(web.endpoint)}, config, json_output)
        await stopping.wait()
        log.info("stopping")
        await web.stop()
        await listener.stop(STOP_PATIENCE_S)
        engine_loop.end_turn()
    finally:
        store.close()
    return 0


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
