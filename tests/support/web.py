"""The HTTP application on fakes of all its sources."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from config.model import ServerConfig
from config.scram import hash_password
from engine.inspection import Inspection
from engine.store.read.backup import BackupRefused
from engine.store.read.records import UnknownMessage
from engine.values.broker_stats import BrokerStats, StoreStats
from engine.values.errors import InvalidSelector
from gateway.answers.questions import WrongQuestion
from gateway.answers.store_tasks import TaskRefused
from gateway.answers.store_view import question_of
from gateway.connections.security import Security
from gateway.process.counters import GatewayCounters
from gateway.web.api import create_app
from gateway.web.retry import RetrySource
from gateway.web.source import StatsSource
from gateway.web.store import StoreSource
from gateway.web.why import Answer, WhySource
from tests.support.engine.snapshots import broker, destination

OPEN = Security(ServerConfig())


GUARDED = Security(ServerConfig(users={"alice": tuple(hash_password("secret", 4096))}))


class Seen(Inspection):
    """An inspection that returns its argument."""

    def __init__(self, stats: BrokerStats) -> None:
        self._seen = stats

    def steps(self) -> Iterator[None]:
        yield

    def stats(self) -> BrokerStats:
        return self._seen


class Fixed(StatsSource):
    is_failed = False

    def __init__(self, stats: BrokerStats) -> None:
        self._stats = stats

    def inspection(self) -> Inspection:
        assert not self.is_failed, "a broker in the middle of a change is not asked"
        return Seen(self._stats)

    def store_stats(self) -> StoreStats:
        assert not self.is_failed, "a broker in the middle of a change is not asked"
        return self._stats.store

    def counters(self) -> GatewayCounters:
        return GatewayCounters()

    def has_failed(self) -> bool:
        return self.is_failed


class Knowing(WhySource):
    """Knows consumer 1, connection 2 and message ID:s-3."""

    def consumer(self, consumer_id: int) -> Answer | None:
        return Answer(["consumer 1: idle"], {"gate": "nothing-waiting"}) if consumer_id == 1 else None

    def producer(self, connection_id: int) -> Answer | None:
        return Answer(["connection 2: open"], {"reason": ""}) if connection_id == 2 else None

    async def message(self, message_id: str) -> Answer:
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


class Retrying(RetrySource):
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


class Storing(StoreSource):
    """Knows one message, ``ID:s-8``."""

    async def query(self, asked: Mapping[str, str]) -> dict[str, Any]:
        question = question_of(asked)
        if question.message_id != "ID:s-8":
            raise UnknownMessage("no such message")
        return {"messages": [{"id": "ID:s-8"}]}

    async def space(self, tells_why: bool) -> dict[str, Any]:
        return {"told_why": tells_why}

    async def dump(self, asked: Mapping[str, str]) -> dict[str, Any]:
        if "x" in asked:
            raise WrongQuestion("'x' is not known")
        return {"records": [], "next_from": 0}

    def start(self, what: str) -> dict[str, Any]:
        if what == "rebuild":
            raise TaskRefused("task 1 on the store is under way")
        return {"task": 1, "done": False}

    def status(self, number: int) -> dict[str, Any] | None:
        return {"task": 1, "done": True} if number == 1 else None

    async def stop(self) -> None:
        return None

    async def backup(self, directory: str) -> dict[str, Any]:
        if directory == "full":
            raise BackupRefused("full is there and not empty")
        if "\0" in directory:
            raise ValueError("embedded null byte")
        return {"directory": directory}


@asynccontextmanager
async def serving(
    stats: BrokerStats | None = None, security: Security = OPEN, host: str = "localhost"
) -> AsyncIterator[Callable[..., Awaitable[ClientResponse]]]:
    application = create_app(
        Fixed(stats if stats is not None else broker(destination("orders"))),
        Knowing(),
        Retrying(),
        Storing(),
        security,
        host,
    )
    async with TestClient(TestServer(application, host="127.0.0.1")) as client:
        yield client.get


def basic(login: str, passcode: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{login}:{passcode}".encode()).decode()}
