"""The gateway as the routes see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from config.model import ServerConfig
from engine.store.file_store import FileStore
from gateway.logins.login_check import LoginCheck
from gateway.loop.engine_loop import EngineLoop
from gateway.process.log_lines import PeerLines
from gateway.settings.retention import keeping_of
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.connections import LiveConnections
from gateway.web.management.log_leases import LogLeases
from gateway.web.management.log_readers import LogReaders
from gateway.web.management.reload import LiveReload
from gateway.web.management.retries import LiveRetries
from gateway.web.management.schedule import LiveSchedule
from gateway.web.management.stats import LiveStats
from gateway.web.management.store import LiveStore
from gateway.web.management.subscriptions import LiveSubscriptions
from gateway.web.management.transactions import LiveTransactions
from gateway.web.management.upkeep import LiveUpkeep
from gateway.web.management.why import LiveWhy
from gateway.web.rest.messages import LiveMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the routes ask, and give orders to."""

    stats: LiveStats
    why: LiveWhy
    retries: LiveRetries
    store: LiveStore
    leases: LogLeases
    readers: LogReaders
    schedule: LiveSchedule
    transactions: LiveTransactions
    subscriptions: LiveSubscriptions
    upkeep: LiveUpkeep
    messages: LiveMessages
    reload: LiveReload
    connections: LiveConnections


def live_sources(
    config: ServerConfig,
    stats: LiveStats,
    engine_loop: EngineLoop,
    login_check: LoginCheck,
    store: FileStore,
    reload: LiveReload,
    lines: PeerLines,
    memory: RequestMemory,
) -> Sources:
    """Return those of a running gateway."""
    directory = config.data_directory
    stored = LiveStore(directory, store.rebuild_derived, partial(keeping_of, config), memory)
    leases = LogLeases(directory, config.store.retention.lease_max_ms, memory)
    leases.adopt()
    return Sources(
        stats=stats,
        why=LiveWhy(engine_loop.broker, lambda: reload.config, stored),
        retries=LiveRetries(engine_loop),
        store=stored,
        leases=leases,
        readers=LogReaders(directory, memory),
        schedule=LiveSchedule(engine_loop),
        transactions=LiveTransactions(engine_loop, lines),
        subscriptions=LiveSubscriptions(engine_loop, lines),
        upkeep=LiveUpkeep(engine_loop, lines),
        messages=LiveMessages(engine_loop, directory, login_check.groups_of, login_check.is_required, memory),
        reload=reload,
        connections=LiveConnections(engine_loop.broker),
    )
