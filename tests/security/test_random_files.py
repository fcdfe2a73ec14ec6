"""The files of a store over HTTP, asked for by anybody in any way; whoever may read them gets them meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from config.matching import BOTH, Pattern
from config.model import ServerConfig
from config.permissions import Action, Permission
from config.scram import hash_password
from engine.backlog.context import TurnAgenda
from engine.limits.connection_memory import Holdings
from gateway.answers.served_files import Part
from gateway.logins.login_check import LoginCheck
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.log_leases import LogLeases
from gateway.web.management.log_readers import LogReaders
from gateway.web.management.store import LiveStore
from protocols.peer_socket import LoggedIn
from tests.support.hostile.random_files import SECRET, Files, RandomFiles
from tests.support.hostile.random_readers import HONEST
from tests.support.hostile.simulated_gateway import FaultLog
from tests.support.long_run import LongRun
from tests.support.store.sample_store import SampleStore
from tests.support.web import listening
from tests.support.world.bodies import Violation
from tests.support.world.seeds import asked_or, telling

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

SEEDS: Final = (1, 2, 3)
ROUNDS: Final = 40
AGAIN: Final = "PENSTOCK_SEED={} python -m pytest tests/security/test_random_files.py -k test_seed"
LIMIT_S: Final = 60.0
MEMORY_BYTES: Final = 4 << 20  # so that slow readers make room
VERIFIERS: Final = tuple(hash_password("secret", 4096))
_READERS: Final = frozenset({"readers"})
_GRANTS: Final[dict[Action, frozenset[str]]] = {
    "read": _READERS,
    "export": _READERS,
    "browse": frozenset({"clerks"}),
}


class _AtOnce(LoginCheck):
    """Answers wrong passwords as fast as right ones: the delays of the login queue are other tests'."""

    async def log_in(self, address: str, login: str, passcode: str) -> LoggedIn | None:
        return LoggedIn(login, self.groups_of(login)) if self.check(login, passcode) else None


LOGINS: Final = _AtOnce(
    ServerConfig(
        users=dict.fromkeys(("reader", "clerk"), VERIFIERS),
        groups={"reader": frozenset({"readers"}), "clerk": frozenset({"clerks"})},
        permissions=(
            Permission(Pattern.parse(">"), BOTH, _GRANTS),
            Permission(Pattern.parse("orders"), BOTH, {"read": frozenset({"readers", "clerks"})}),
        ),
    )
)
Store = Callable[[str, RequestMemory], LiveStore]
Readers = Callable[[str, RequestMemory], LogReaders]
HOUR_MS: Final = 3_600_000


def _never() -> Any:
    raise AssertionError("not asked for")


def _sound(directory: str, memory: RequestMemory) -> LiveStore:
    return LiveStore(directory, _never, _never, memory)


def run_seed(
    seed: int, directory: Path, made: Store = _sound, rounds: int = ROUNDS, told: Readers = LogReaders
) -> Counter[int]:
    """Return how often each status came.  Raises: Violation."""
    with (
        telling("files", seed, again=AGAIN.format(seed)),
        SampleStore(directory / "data", segment_bytes=1 << 16) as sample,
        FaultLog() as log,
    ):
        sample.destination("orders")
        for number in range(60):
            sample.send(1, SECRET + b"x" * 2_000, priority=number % 3)
        sample.publish(is_clean=True)
        for place in ("data/lock", "data/readers/lease.json", "data/exports/mark.json", "secret"):
            (directory / place).parent.mkdir(exist_ok=True)
            (directory / place).write_bytes(SECRET)
        (directory / "data" / "link").symlink_to(".")
        files = Files(sample, random.Random(f"{seed} files"))
        files.look()
        counts = asyncio.run(_served(seed, files, made, rounds, told))
        if log.faults:
            raise Violation(f"the gateway has a defect: {log.faults[0]}")
        return counts


async def _served(seed: int, files: Files, made: Store, rounds: int, told: Readers) -> Counter[int]:
    memory = RequestMemory(Holdings(MEMORY_BYTES, TurnAgenda()), read_time_s=0)
    before = len(asyncio.all_tasks())
    store = made(str(files.store.directory), memory)
    directory = str(files.store.directory)
    leases, readers = LogLeases(directory, HOUR_MS, memory), told(directory, memory)
    async with listening(memory=memory, store=store, leases=leases, readers=readers, login_check=LOGINS) as endpoint:
        hostile = RandomFiles(endpoint.port, files, random.Random(seed))
        await hostile.run(rounds)
    async with asyncio.timeout(LIMIT_S):
        while len(asyncio.all_tasks()) > before:
            await asyncio.sleep(0)
    if memory.holdings.used_bytes:
        raise Violation(f"{memory.holdings.used_bytes} octets are held for nobody")
    hostile.readers.check(files.store.directory, files.store.offset)
    return Counter(hostile.counts)


@pytest.mark.parametrize("seed", asked_or(SEEDS))
def test_seed(tmp_path: Path, seed: int) -> None:
    run_seed(seed, tmp_path)


def test_more_seeds(long_run: LongRun, tmp_path_factory: pytest.TempPathFactory) -> None:
    long_run.take(lambda seed: run_seed(seed, tmp_path_factory.mktemp("files"), rounds=5 * ROUNDS))


def test_the_seeds_are_not_idle(tmp_path: Path) -> None:
    assert {200, 201, 206, 400, 401, 403, 404, 405, 409, 416} <= set(run_seed(1, tmp_path))


class _Resolving(LiveStore):
    """Gives every file that its name leads to."""

    async def part(self, address: str, path: str, asked: tuple[int, int] | None) -> Part:
        place = self._directory / path
        if not place.is_file():
            raise FileNotFoundError
        octets, status = place.read_bytes(), place.stat()
        first = max(0, len(octets) - asked[1] if asked[0] < 0 else asked[0]) if asked else 0
        stop = len(octets) if asked is None or asked[0] < 0 or asked[1] < 0 else asked[1] + 1
        return Part(octets[first:stop], first, status.st_size, f"{status.st_ino:x}")


class _Shifting(LiveStore):
    """Gives an octet too much, behind the range."""

    async def part(self, address: str, path: str, asked: tuple[int, int] | None) -> Part:
        wider = (asked[0], asked[1] + 1) if asked and 0 <= asked[0] <= asked[1] else asked
        return await super().part(address, path, wider)


class _Remembering(LiveStore):
    """Gives the tag of the first file that had the name."""

    def __init__(self, directory: str, memory: RequestMemory) -> None:
        super().__init__(directory, _never, _never, memory)
        self._tags: dict[str, str] = {}

    async def part(self, address: str, path: str, asked: tuple[int, int] | None) -> Part:
        part = await super().part(address, path, asked)
        return Part(part.octets, part.first, part.size, self._tags.setdefault(path, part.tag))


class _Failing(LiveStore):
    """Does not expect that a segment is dropped."""

    async def part(self, address: str, path: str, asked: tuple[int, int] | None) -> Part:
        try:
            return await super().part(address, path, asked)
        except FileNotFoundError:
            raise AssertionError("it was there") from None


@pytest.mark.parametrize(
    ("mistaken", "says"),
    [
        (lambda directory, memory: _Resolving(directory, _never, _never, memory), "answered|of no state|a defect"),
        (lambda directory, memory: _Shifting(directory, _never, _never, memory), "of no state"),
        (_Remembering, "of no state"),
        (lambda directory, memory: _Failing(directory, _never, _never, memory), "none of|a defect"),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, mistaken: Store, says: str) -> None:
    def run() -> None:
        for seed in SEEDS:
            run_seed(seed, tmp_path / str(seed), mistaken)

    with pytest.raises(Violation, match=says):
        run()


class _Trusting(LogReaders):
    """Takes any position."""

    def _check(self, store_id: str, to_offset: int) -> None:
        """Nothing."""


class _Forgetful(LogReaders):
    """Ends the wrong reader."""

    async def end(self, address: str, is_stream: bool, reader: str) -> None:
        await super().end(address, True, HONEST)


@pytest.mark.parametrize(("mistaken", "says"), [(_Trusting, "none of|of store"), (_Forgetful, "honest|none of")])
def test_a_mistake_about_readers_is_found(tmp_path: Path, mistaken: Readers, says: str) -> None:
    def run() -> None:
        for seed in SEEDS:
            run_seed(seed, tmp_path / str(seed), told=mistaken)

    with pytest.raises(Violation, match=says):
        run()
