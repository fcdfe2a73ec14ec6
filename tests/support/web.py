"""The HTTP application on fakes of all its sources."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from config.errors import ConfigError, Problem
from config.matching import QUEUE
from config.model import Endpoint, ServerConfig
from config.reports.changes import Changes
from config.scram import hash_password
from engine.inspection import Inspection
from engine.store.read.backup import BackupRefused
from engine.store.read.log_readers import LogReader
from engine.store.read.records import UnknownMessage
from engine.values.broker_stats import BrokerStats, StoreStats
from engine.values.errors import DestinationInUse, InvalidSelector, StoreError, SubscriptionInUse, UnknownSubscription
from engine.values.xid import xid_of
from gateway.answers.jolokia import DiskUse
from gateway.answers.message_lives import SearchGoesOn
from gateway.answers.questions import WrongQuestion
from gateway.answers.store_tasks import TaskRefused
from gateway.answers.store_view import question_of
from gateway.connections.tls import ServerTls
from gateway.logins.login_check import LoginCheck
from gateway.process.counters import GatewayCounters
from gateway.web.api import create_app
from gateway.web.connections.sockets import SocketRoute
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.connections import ConnectionRow, LiveConnections
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
from gateway.web.management.why import Answer, LiveWhy
from gateway.web.rest.messages import LiveMessages
from gateway.web.rest.named_destination import Named
from gateway.web.rest.requests import Asking
from gateway.web.server import HttpServer
from gateway.web.sources import Sources
from tests.support.engine.snapshots import broker, destination

OPEN = LoginCheck(ServerConfig())


NO_TLS = ServerTls(ServerConfig())
GUARDED = LoginCheck(ServerConfig(users={"alice": tuple(hash_password("secret", 4096))}))


class Seen(Inspection):
    """An inspection that returns its argument."""

    def __init__(self, stats: BrokerStats) -> None:
        self._seen = stats

    def steps(self) -> Iterator[None]:
        yield

    def stats(self) -> BrokerStats:
        return self._seen


class Fixed(LiveStats):
    is_failed = False
    is_ending = False

    def __init__(self, stats: BrokerStats) -> None:
        self._stats = stats

    def inspection(self) -> Inspection:
        assert not self.is_failed, "a broker in the middle of a change is not asked"
        return Seen(self._stats)

    def store_stats(self) -> StoreStats:
        assert not self.is_failed, "a broker in the middle of a change is not asked"
        return self._stats.store

    def disk_use(self) -> DiskUse | None:
        return DiskUse(1_000, 9_000)

    def counters(self) -> GatewayCounters:
        return GatewayCounters()

    def alarms(self) -> list[tuple[str, str]]:
        return [("error", "store: failed")] if not self._stats.store.is_accepting else []

    def is_stopping(self) -> bool:
        return self.is_ending

    def has_failed(self) -> bool:
        return self.is_failed


class Knowing(LiveWhy):
    """Knows consumer 1, connection 2 and message ID:s-3; a search for ``early`` goes on."""

    def __init__(self) -> None:
        """Nothing of the gateway is here."""

    def consumer(self, consumer_id: int) -> Answer | None:
        return Answer(["consumer 1: idle"], {"gate": "nothing-waiting"}) if consumer_id == 1 else None

    def producer(self, connection_id: int) -> Answer | None:
        return Answer(["connection 2: open"], {"reason": ""}) if connection_id == 2 else None

    async def message(self, address: str, message_id: str, before: int) -> Answer:
        if message_id == "early":
            raise SearchGoesOn("'early' is not in this part", 4_096)
        if message_id != "ID:s-3":
            raise UnknownMessage(f"{message_id!r} is not of this store")
        return Answer(["message ID:s-3: sent"], {"events": []})

    def explain_consumer(self, consumer_id: int) -> dict[str, Any] | None:
        return {"what": "consumer 1", "settings": {}} if consumer_id == 1 else None

    def explain_destination(self, text: str, connection_id: int | None = None) -> dict[str, Any] | None:
        if "*" in text:
            raise ValueError(f"{text}: no wildcards")
        if connection_id not in (None, 2):
            return None
        return {"what": text if connection_id is None else f"{text} for connection {connection_id}", "settings": {}}


class Retrying(LiveRetries):
    """Knows the queue ``dead``; remembers the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int, int]] = []
        self.is_stopped = False

    def start(self, queue: str, selector: str, rate: int, limit: int) -> int:
        if queue != "dead":
            raise LookupError(f"no queue {queue!r}")
        if selector == "bad":
            raise InvalidSelector("selector 'bad': nothing to compare")
        self.asked.append((queue, selector, rate, limit))
        return len(self.asked)

    def status(self, number: int) -> dict[str, object] | None:
        return {"moved": 3, "done": self.is_stopped} if 0 < number <= len(self.asked) else None

    def stop(self, number: int) -> None:
        self.is_stopped = True


class Storing(LiveStore):
    """Knows one message, ``ID:s-8``."""

    def __init__(self) -> None:
        """Nothing of the gateway is here."""

    async def query(self, address: str, asked: Mapping[str, str]) -> bytes:
        question = question_of(asked)
        if question.message_id != "ID:s-8":
            raise UnknownMessage("no such message")
        return b'{"messages": [{"id": "ID:s-8"}]}'

    async def space(self, address: str, tells_why: bool) -> dict[str, Any]:
        return {"told_why": tells_why}

    async def readers(self, address: str) -> list[LogReader]:
        return [LogReader("stream", "billing", "orders.>", 500, 1_000, 7, 50, 20_000)]

    async def dump(self, address: str, asked: Mapping[str, str]) -> bytes:
        if "x" in asked:
            raise WrongQuestion("'x' is not known")
        return b'{"records": [], "next_from": 0}'

    def start(self, what: str) -> dict[str, Any]:
        if what == "rebuild":
            raise TaskRefused("task 1 on the store is under way")
        return {"task": 1, "done": False}

    def status(self, number: int) -> dict[str, Any] | None:
        return {"task": 1, "done": True} if number == 1 else None

    async def stop(self) -> None:
        return None

    async def backup(self, address: str, directory: str) -> dict[str, Any]:
        if directory == "full":
            raise BackupRefused("full is there and not empty")
        if "\0" in directory:
            raise ValueError("embedded null byte")
        return {"directory": directory}


class NoLogLeases(LogLeases):
    """For tests that ask for no leases of the log."""

    def __init__(self) -> None:
        """Nothing of the gateway is here."""


class NoLogReaders(LogReaders):
    """For tests in which no reader says how far it is."""

    def __init__(self) -> None:
        """Nothing of the gateway is here."""


class Scheduling(LiveSchedule):
    """Knows every destination but ``gone``."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def listed(self, destination: Named | None, limit: int) -> dict[str, Any]:
        self._check(destination)
        self.asked.append((destination, limit))
        return {"schedules": []}

    async def cancel(self, ids: list[str]) -> dict[str, Any]:
        self.asked.append(ids)
        return {"cancelled": len(ids)}

    async def cancel_all(self, destination: Named, after: int) -> dict[str, Any]:
        self._check(destination)
        self.asked.append((destination, after))
        if destination[1] == "disk":
            raise StoreError("nothing was cancelled: EIO")
        return {"cancelled": 7, "next": ""}

    def _check(self, destination: Named | None) -> None:
        if destination is not None and destination[1] == "gone":
            raise LookupError("no queue 'gone'")


class Deciding(LiveTransactions):
    """Knows the transaction ``1-aa-``."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def listed(self, limit: int) -> dict[str, Any]:
        self.asked.append((limit,))
        one = {"xid": "1-aa-", "user": "", "prepared_ms": 0, "messages": 1, "acknowledged": 0, "size_bytes": 9}
        decided = {"xid": "1-cc-", "user": "", "decided_ms": 0, "outcome": "committed"}
        return {"prepared": 1, "transactions": [one], "decided": [decided]}

    async def decide(self, xid: str, is_commit: bool, operator: str) -> dict[str, Any]:
        if str(xid_of(xid)) != "1-aa-":
            raise LookupError(f"no prepared transaction {xid}")
        self.asked.append((xid, is_commit, operator))
        return {"xid": xid, "outcome": "committed" if is_commit else "rolled back"}

    async def forget(self, xid: str, operator: str) -> dict[str, Any]:
        self.asked.append((xid, operator))
        return {"xid": xid, "outcome": "forgotten"}


class Subscribed(LiveSubscriptions):
    """Knows the durable subscriptions ``bills`` of the client id ``c`` and ``used``, which has consumers."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    async def listed(self, search: str, limit: int) -> dict[str, Any]:
        self.asked.append((search, limit))
        one = {"client_id": "c", "name": "bills", "source": "topic://t", "selector": "a = 1", "shared": False}
        two = {"client_id": "", "name": "used\n", "source": "topic://t", "selector": "", "shared": True}
        counts = {"owner": "ann", "consumers": 0, "waiting": 7}, {"owner": "", "consumers": 1, "waiting": 1}
        return {"durable": 3, "subscriptions": [one | counts[0], two | counts[1]]}

    async def delete(self, client_id: str, name: str, operator: str) -> dict[str, Any]:
        if name == "used":
            raise SubscriptionInUse("subscription 'used' has 1 consumers")
        if name != "bills":
            raise UnknownSubscription(f"there is no subscription {name!r}")
        self.asked.append((client_id, name, operator))
        return {"client_id": client_id, "deleted": name}


class Keeping(LiveUpkeep):
    """Knows the queues ``q``, which is in use, and ``orders.eu``; the disk refuses what is about ``full``."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.is_stopped = False

    def purge(self, queue: str, selector: str, holder: str) -> int:
        if queue == "full":
            raise StoreError("nothing was purged, because the disk refuses writes: x")
        if queue not in ("q", "orders.eu"):
            raise LookupError(f"no queue {queue!r}")
        if selector == "bad":
            raise InvalidSelector("selector 'bad': nothing to compare")
        self.asked.append((queue, selector))
        return len(self.asked)

    def purged(self, number: int) -> str | None:
        return str(self.asked[number - 1][0]) if 0 < number <= len(self.asked) else None

    def status(self, number: int) -> dict[str, object]:
        return {"queue": self.purged(number), "dropped": 3, "done": self.is_stopped}

    def stop(self, number: int) -> None:
        self.is_stopped = True

    async def delete(self, destination: Named, is_forced: bool) -> dict[str, Any]:
        if destination == (QUEUE, "q"):
            raise DestinationInUse("queue://q has 1 consumers")
        self.asked.append((*destination, is_forced))
        return {"deleted": "it"}

    def pause(self, queue: str, operator: str) -> None:
        self.asked.append((*self._known(queue), "pause", operator))

    def resume(self, queue: str, operator: str) -> None:
        self.asked.append((*self._known(queue), "resume", operator))

    def _known(self, queue: str) -> tuple[str]:
        if queue not in ("q", "orders.eu"):
            raise LookupError(f"no queue {queue!r}")
        return (queue,)

    def close_connection(self, number: int, operator: str) -> None:
        if number != 7:
            raise LookupError(f"no connection {number}")
        self.asked.append((number, operator))


class Reloading(LiveReload):
    """problem: why the configuration cannot be used, "" if it can."""

    def __init__(self) -> None:
        self.problem = ""
        self.asked: list[str] = []

    async def reload(self, by: str) -> Changes:
        self.asked.append(by)
        if self.problem:
            raise ConfigError([Problem("p.yaml", 1, "dat", self.problem)])
        return Changes(["users.ann: added"], ["data: y, before x"])


class Connected(LiveConnections):
    """Knows two connections."""

    def __init__(self) -> None:
        """Nothing of the gateway is here."""

    def steps(self) -> Iterator[list[ConnectionRow]]:
        yield [ConnectionRow(7, "stomp", "192.0.2.1:5", "billing", "alice", 2, 4_096, "memory", 90)]
        yield [ConnectionRow(9, "amqp", "192.0.2.2:6", "", "bob", 0, 0, "", 0)]


class NoMessages(LiveMessages):
    """For tests that ask for no messages."""

    def __init__(self) -> None:
        """Nothing of the gateway is here."""

    def require_target(self, asking: Asking, destination: Named) -> None:
        """Everybody may send to every destination."""

    def stop(self) -> None:
        """Nothing waits."""


def sources(stats: BrokerStats | None = None, **others: Any) -> Sources:
    """Return fakes of all sources.  stats: by default of a queue; others: instead of the fakes."""
    fakes: dict[str, Any] = {
        "stats": Fixed(stats if stats is not None else broker(destination("orders"))),
        "why": Knowing(),
        "retries": Retrying(),
        "store": Storing(),
        "leases": NoLogLeases(),
        "readers": NoLogReaders(),
        "schedule": Scheduling(),
        "transactions": Deciding(),
        "subscriptions": Subscribed(),
        "upkeep": Keeping(),
        "messages": NoMessages(),
        "reload": Reloading(),
        "connections": Connected(),
    }
    return Sources(**{**fakes, **others})


@asynccontextmanager
async def serving(
    stats: BrokerStats | None = None, login_check: LoginCheck = OPEN, host: str = "localhost", **others: Any
) -> AsyncIterator[TestClient[Any, Any]]:
    """Yield a client of the application on fakes, see ``sources``."""
    application = create_app(sources(stats, **others), login_check, host)
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        yield client


@asynccontextmanager
async def listening(
    stats: BrokerStats | None = None,
    sockets: SocketRoute | None = None,
    memory: RequestMemory | None = None,
    login_check: LoginCheck = OPEN,
    **others: Any,
) -> AsyncIterator[Endpoint]:
    """Yield the address of a listener on fakes, see ``sources``."""
    endpoint = Endpoint("http", "127.0.0.1", 0)
    server = await HttpServer.start(endpoint, sources(stats, **others), login_check, NO_TLS, sockets, memory)
    try:
        yield server.endpoint
    finally:
        await server.stop()


def basic(login: str, passcode: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{login}:{passcode}".encode()).decode()}
