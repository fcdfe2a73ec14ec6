"""The composition root: builds every part, starts them in order, stops them in reverse."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import uvloop

from config.errors import ConfigError, Problem
from config.exposure import plain_passwords
from config.loader import place_of
from config.matching import QUEUE, AddressMatcher
from config.model import ServerConfig
from config.permissions import PermissionMap
from engine.broker import Broker
from engine.broker_options import BrokerOptions
from engine.features.duplicate_ids import DuplicateIdLimits
from engine.features.message_copies import CopyLimits
from engine.limits.disk_watch import DiskSpace, DiskWatch
from engine.limits.producer_gates import GlobalLimits
from engine.ports.clock import Clock
from engine.ports.tracing import Tracing
from engine.ports.workers import Workers
from engine.store.disk.files import Files, RealFiles
from engine.store.disk.spill_files import SpillFiles
from engine.store.file_store import FileStore
from engine.store.plain_words import counted
from engine.values.histogram import SYNC_BOUNDS_S, Histogram
from engine.values.message import AMQP_1_0, OPENWIRE
from gateway.connections.admission import admission_of
from gateway.connections.listener import Listener
from gateway.connections.tls import ServerTls
from gateway.logins.login_check import LoginCheck
from gateway.loop.engine_loop import EngineLoop, LoopTimers
from gateway.loop.firing_faults import FiringFaults
from gateway.process import garbage_collection
from gateway.process.announcements import announce, log_recovery
from gateway.process.audit_log import AuditLog
from gateway.process.clock import SystemClock
from gateway.process.closing import close_within
from gateway.process.counters import GatewayCounters
from gateway.process.descriptors import raise_limit, shortage
from gateway.process.disk_space import StoreDisk
from gateway.process.early_hang_up import EarlyHangUp
from gateway.process.exit_codes import FAILED, OK, UNCLEAN
from gateway.process.graceful_stop import GracefulStop, stopped_by_fault
from gateway.process.log_lines import FORMATTERS, PeerLines
from gateway.process.passed_sockets import passed_sockets
from gateway.process.request_threads import RequestThreads, end_process
from gateway.process.service_manager import ServiceManager
from gateway.process.standstill import check_each_second
from gateway.process.system_syncs import kernel_syncs
from gateway.process.workers import ThreadWorkers
from gateway.settings.conversions import SESSION_CONVERTER
from gateway.settings.engine_settings import (
    branch_limits,
    min_disk_free_bytes,
    schedule_limits,
    store_settings,
    user_limits,
)
from gateway.settings.message_keys import MESSAGE_KEYS
from gateway.settings.retention import AddressPolicies
from gateway.telemetry.configured import tracing_of
from gateway.web.management.reload import LiveReload
from gateway.web.management.stats import LiveStats
from protocols.amqp.v1_0.mapping.selector_properties import AmqpPropertyReader
from protocols.openwire.mapping.selector_properties import OpenWirePropertyReader

if TYPE_CHECKING:
    from gateway.web.server import HttpServer

STOP_PATIENCE_S: Final = 5.0  # for peers to read what they are owed
HURRIED_PATIENCE_S: Final = 1.0  # the same after a second signal
DISK_PATIENCE_S: Final = 10.0
UNCLEAN_TEXT: Final = "stopped without closing the store cleanly"
KEPT_TEXT: Final = "everything confirmed is kept, the next start recovers from the log"

log: Final = logging.getLogger("penstock")


def serve(
    read: Callable[..., ServerConfig],
    json_output: bool,
    skip_corruption: bool = False,
    files: Files | None = None,
    log_format: str = "text",
    clock: Clock | None = None,
) -> int:
    """Run the gateway until SIGTERM or SIGINT (gateway.process.graceful_stop); return the exit code.

    read: reads the configuration, at the start and, with ``is_again``, on SIGHUP.
    log_format: a key of FORMATTERS.
    skip_corruption: continue past damage in the middle of the log, which is lost; otherwise it is an error.
    files: the store's file system, clock: the engine's time; the machine's where None is given.

    Raises: StoreLocked, StoreCorrupt, ConfigError, OSError if it cannot start.
    """
    early = EarlyHangUp()
    config = read()
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[log_format])
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for note in (*config.notes, *plain_passwords(config)):
        log.warning("configuration: %s", note)
    counters = GatewayCounters(sync_times=Histogram(SYNC_BOUNDS_S) if config.metrics.histograms else None)
    login_check = LoginCheck(config, counters)
    tls = ServerTls(config)
    directory = config.data_directory
    if os.path.exists(directory) and not os.path.isdir(directory):
        place = place_of(config.sources.get("data", "default"))
        text = f"{directory!r} is not a directory; allowed is a directory, or a path at which one can be made"
        raise ConfigError([Problem(*place, "data", text)])
    few = shortage(config.stomp.limits.connections, raise_limit())
    if few:
        raise OSError(few)
    tracing = tracing_of(config, counters)
    threads = RequestThreads()
    work = _serve(
        config,
        partial(read, is_again=True),
        login_check,
        tls,
        counters,
        json_output,
        skip_corruption,
        files or RealFiles(),
        clock or SystemClock(),
        tracing,
        early,
    )
    try:
        code = uvloop.run(threads.around(work))
    finally:
        gc.enable()
        if tracing is not None:
            tracing.stop()
    if threads.are_left:
        end_process(code)
    return code


async def _serve(
    config: ServerConfig,
    read: Callable[[], ServerConfig],
    login_check: LoginCheck,
    tls: ServerTls,
    counters: GatewayCounters,
    json_output: bool,
    skip_corruption: bool,
    files: Files,
    clock: Clock,
    tracing: Tracing | None,
    early: EarlyHangUp,
) -> int:
    loop = asyncio.get_running_loop()
    garbage_collection.suspend()
    workers = ThreadWorkers(loop, sync_times=counters.sync_times, system_syncs=kernel_syncs(loop))
    engine_loop, store, spill, firing_faults = assemble(
        loop, config, clock, workers, files, StoreDisk(config.data_directory), skip_corruption, tracing
    )
    workers.attach(engine_loop)
    broker = engine_loop.broker
    stop = GracefulStop(broker.last_settlements, clock, config.stop.drain_time_ms)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.signalled)
    broker.access.adopt(PermissionMap(config.permissions, login_check.known_groups))
    admission = admission_of(config, counters)
    listener = Listener(config, broker, engine_loop, login_check, tls, counters, admission)
    manager = ServiceManager()
    checks = (engine_loop.check, login_check.tick, tls.check, SESSION_CONVERTER.forget, manager.alive)
    checking = asyncio.ensure_future(check_each_second(*checks))
    code = OK
    try:
        source = LiveStats(broker, engine_loop, counters, stop.asked)
        reload = LiveReload(config, read, login_check, engine_loop, admission.lines, AuditLog(counters))
        web = await _listen(config, listener, source, engine_loop, login_check, tls, store, reload, admission.lines)
        early.end(loop, reload.hang_up)
        garbage_collection.resume()
        announce({**listener.endpoints, "http": web.endpoint}, config, json_output)
        manager.ready()
        if not await stopped_by_fault(stop.asked, engine_loop.failed):
            manager.stopping()
            listener.close()
            await stop.settled(engine_loop.failed, engine_loop.open_turn)
        if not engine_loop.failed.is_set():
            # First the listener: its connections over WebSocket end with the web server.
            await listener.stop(HURRIED_PATIENCE_S if stop.hurried.is_set() else STOP_PATIENCE_S)
            await web.stop()
            engine_loop.end_turn()
    finally:
        checking.cancel()
        listener.close()
        if engine_loop.failed.is_set():
            code = FAILED
            firing_faults.note(engine_loop.failure)
        elif not await _close_store(store, workers, engine_loop):
            code = FAILED if engine_loop.failed.is_set() else UNCLEAN
        else:
            spill.remove_all()
        workers.close()
    return code


def assemble(
    loop: asyncio.AbstractEventLoop,
    config: ServerConfig,
    clock: Clock,
    workers: Workers,
    files: Files,
    disk: DiskSpace,
    skip_corruption: bool = False,
    tracing: Tracing | None = None,
) -> tuple[EngineLoop, FileStore, SpillFiles, FiringFaults]:
    """Open the store and build the engine, its loop, and the other parts that a stop needs.

    workers: hand finished jobs over to the EngineLoop.
    """
    timers = LoopTimers(loop, clock)
    settings = store_settings(config)
    matcher = AddressMatcher(config.addresses)
    policies = AddressPolicies(matcher, config.addresses)
    store = FileStore(
        config.data_directory, files, workers, clock, timers, settings, skip_corruption, MESSAGE_KEYS, policies
    )
    log_recovery(store)
    spill = SpillFiles(files, config.data_directory, workers)
    broker = _broker(config, store, clock, timers, matcher, spill, tracing)
    if broker.branches.room.count:
        waiting = counted(broker.branches.room.count, "prepared transaction")
        log.info("%s wait for their outcome; 'penstock transactions list' shows them", waiting)
    firing_faults = FiringFaults(files, config.data_directory, broker.scheduler)
    firing_faults.take_up()
    engine_loop = EngineLoop(loop, broker, store, clock)
    timers.engine_loop = engine_loop
    watch = DiskWatch(
        broker.producer_gates,
        disk,
        workers,
        clock,
        timers,
        config.limits.max_disk_usage_percent,
        min_disk_free_bytes(config),
    )
    watch.start()
    engine_loop.disk_watch = watch
    return engine_loop, store, spill, firing_faults


def _broker(
    config: ServerConfig,
    store: FileStore,
    clock: Clock,
    timers: LoopTimers,
    matcher: AddressMatcher,
    spill: SpillFiles,
    tracing: Tracing | None,
) -> Broker:
    """Return the engine, with the destinations of the configuration."""
    options = BrokerOptions(
        destinations_max=config.destinations_max,
        temporary_destinations_max=config.temporary_destinations_max,
        expire_messages_period_ms=config.expire_messages_period_ms,
        permissions=PermissionMap(config.permissions, config.groups),
        limits=GlobalLimits(config.limits.global_max_size_bytes, config.limits.global_max_messages),
        virtual_topics=config.virtual_topics,
        has_advisories=config.advisory_support,
        name=config.server_name,
        schedule_limits=schedule_limits(config),
        spill_space=spill,
        connection_memory_bytes=config.limits.connection_memory_bytes,
        user_limits=user_limits(config),
        copy_limits=CopyLimits(config.limits.copies, config.limits.copies_bytes),
        duplicate_id_limits=DuplicateIdLimits(config.limits.duplicate_ids_per_address, config.limits.duplicate_ids),
        has_message_times=config.metrics.histograms,
        tracing=tracing,
        branch_limits=branch_limits(config),
    )
    broker = Broker(store, clock, timers, matcher, config.memory_limit_bytes, options)
    broker.readers.register(AMQP_1_0, AmqpPropertyReader())
    broker.readers.register(OPENWIRE, OpenWirePropertyReader())
    for named in config.destinations:
        if named.kind == QUEUE:
            broker.destinations.own_queue(named.name, is_lasting=True)
        else:
            broker.destinations.own_topic(named.name)
    return broker


async def _listen(
    config: ServerConfig,
    listener: Listener,
    source: LiveStats,
    engine_loop: EngineLoop,
    login_check: LoginCheck,
    tls: ServerTls,
    store: FileStore,
    reload: LiveReload,
    lines: PeerLines,
) -> HttpServer:
    """Bind every address before any listener accepts.  Raises: OSError that names the listener and its flag."""
    from gateway.web.connections.sockets import SocketRoute
    from gateway.web.limits.request_memory import RequestMemory
    from gateway.web.server import HttpServer
    from gateway.web.sources import live_sources

    memory = RequestMemory(engine_loop.holdings)
    sources = live_sources(config, source, engine_loop, login_check, store, reload, lines, memory)
    names = list(listener.endpoints)
    passed = passed_sockets()
    try:
        for name in names:
            endpoint = listener.endpoints[name]
            await listener.bind(name, passed)
        name, endpoint = "http", config.listeners.http
        sockets = SocketRoute(listener.new_socket_connection, config.http.origins)
        web = await HttpServer.start(endpoint, sources, login_check, tls, sockets, memory, passed)
        for name in names:
            endpoint = listener.endpoints[name]
            listener.accept(name)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise OSError(f"listeners.{name} (--{name}): cannot listen at {endpoint}: {reason}") from error
    passed.refuse_rest()
    return web


async def _close_store(store: FileStore, workers: ThreadWorkers, engine_loop: EngineLoop) -> bool:
    """Return whether the store was closed cleanly; if not, the log has the reason."""
    store.wind_down()
    if not await workers.drained(DISK_PATIENCE_S):
        log.error("%s: work on the disk has not ended after %g s; %s", UNCLEAN_TEXT, DISK_PATIENCE_S, KEPT_TEXT)
        return False
    if engine_loop.failed.is_set():
        return False
    engine_loop.broker.flush_settlements()
    engine_loop.shut()  # the store closes on another thread: no timer may write after the clean end
    reason = await close_within(store.close, DISK_PATIENCE_S)
    if reason:
        log.error("%s: %s; %s", UNCLEAN_TEXT, reason, KEPT_TEXT)
    return not reason
