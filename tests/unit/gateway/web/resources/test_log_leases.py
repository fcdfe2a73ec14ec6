"""Leases of the log over HTTP: what retention sees of them, who may have them, and how many."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.matching import BOTH, Pattern
from config.model import ServerConfig
from config.permissions import Permission
from config.scram import hash_password
from engine.store.disk.files import RealFiles
from engine.store.read.leases import FOLDER, Lease, read_leases, write_lease
from engine.store.read.reader import store_id_of
from gateway.logins.login_check import LoginCheck
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.log_leases import MOST, PER_HOLDER_MOST, LogLeases
from tests.support.store.sample_store import SampleStore
from tests.support.web import basic, serving

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

HOUR_MS = 3_600_000
BEGIN_MS = 1_700_000_000_000
PLACE = "/api/store/leases"


class Served:
    """A store with leases, and the time of the gateway."""

    def __init__(self, sample: SampleStore) -> None:
        self.now_ms = BEGIN_MS
        self.directory = sample.directory
        self._store_id = sample.store_id
        self.leases = self.within(HOUR_MS)

    def within(self, lease_max_ms: int) -> LogLeases:
        return LogLeases(str(self.directory), lease_max_ms, RequestMemory(), lambda: self.now_ms)

    def kept(self) -> list[Lease]:
        """Return what retention waits for."""
        return read_leases(RealFiles(), str(self.directory), self._store_id, self.now_ms, HOUR_MS)

    def files(self) -> int:
        return len(list((self.directory / FOLDER).iterdir()))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with SampleStore(tmp_path / "data") as sample:
        sample.publish(is_clean=True)
        yield Served(sample)


def asked(**others: Any) -> dict[str, Any]:
    return {"reader": "the export to /lake", "from_offset": 500, "lease_ms": 10_000, **others}


async def test_a_lease_begins_is_renewed_and_ends(served: Served) -> None:
    async with serving(leases=served.leases) as web:
        begun = await web.post(PLACE, json=asked())
        told = await begun.json()
        assert (begun.status, told["until_ms"]) == (201, BEGIN_MS + 10_000)
        (lease,) = served.kept()
        assert lease == Lease("the export to /lake of address 127.0.0.1 over HTTP", 500, BEGIN_MS + 10_000)
        served.now_ms += 8_000
        renewed = await web.post(f"{PLACE}/{told['lease']}", json={"lease_ms": 10_000})
        assert (renewed.status, await renewed.json()) == (200, {**told, "until_ms": BEGIN_MS + 18_000})
        assert [one.until_ms for one in served.kept()] == [BEGIN_MS + 18_000]
        assert (await web.delete(f"{PLACE}/{told['lease']}")).status == 200
        assert (served.kept(), served.files()) == ([], 0)
        for over in (await web.delete(f"{PLACE}/{told['lease']}"), await web.post(f"{PLACE}/x", json={})):
            assert (over.status, (await over.json())["condition"]) == (404, "not-found")


async def test_who_is_gone_keeps_nothing(served: Served) -> None:
    async with serving(leases=served.leases) as web:
        token = (await (await web.post(PLACE, json=asked())).json())["lease"]
        served.now_ms += 10_000
        assert served.kept() == []
        assert (await web.post(f"{PLACE}/{token}", json={})).status == 404
        assert (await web.post(PLACE, json=asked())).status == 201
        assert served.files() == 1, "the file of the one that is over has gone"


async def test_all_renewals_together_last_no_longer_than_a_local_lease(served: Served) -> None:
    async with serving(leases=served.within(30_000)) as web:
        token = (await (await web.post(PLACE, json=asked(lease_ms=20_000))).json())["lease"]
        served.now_ms += 19_000
        told = await (await web.post(f"{PLACE}/{token}", json={"lease_ms": 20_000})).json()
        assert told["until_ms"] == BEGIN_MS + 30_000
        served.now_ms += 11_000
        assert (await web.post(f"{PLACE}/{token}", json={"lease_ms": 20_000})).status == 404
    async with serving(leases=served.within(0)) as web:
        refused = await web.post(PLACE, json=asked())
        assert (refused.status, "lease-max is 0" in await refused.text()) == (409, True)


async def test_so_many_leases_at_a_time(served: Served) -> None:
    for holder in range(MOST // PER_HOLDER_MOST):
        for number in range(PER_HOLDER_MOST):
            await served.leases.begin("", f"user {holder}", f"reader {number}", 0, 10_000)
    async with serving(leases=served.leases) as web:
        refused = await web.post(PLACE, json=asked())
        assert (refused.status, (await refused.json())["condition"]) == (429, "limit-reached")
        assert len(served.kept()) == MOST
        served.now_ms += 10_000
        for _ in range(PER_HOLDER_MOST):
            assert (await web.post(PLACE, json=asked())).status == 201
        assert (await web.post(PLACE, json=asked())).status == 429
        assert served.files() == PER_HOLDER_MOST


@pytest.mark.parametrize(
    "wrong",
    [{"from_offset": -1}, {"from_offset": "1"}, {"lease_ms": 999}, {"lease_ms": 60_001}, {"reader": "x" * 201}]
    + [{"reader": 7}, {"more": 1}],
)
async def test_what_is_no_lease(served: Served, wrong: dict[str, Any]) -> None:
    async with serving(leases=served.leases) as web:
        assert (await web.post(PLACE, json=asked(**wrong))).status == 400
    assert served.kept() == []


async def test_a_disk_that_refuses(served: Served) -> None:
    (served.directory / FOLDER).write_bytes(b"no directory")
    async with serving(leases=served.leases) as web:
        assert (await web.post(PLACE, json=asked())).status == 507


async def test_who_may_and_whose_they_are(served: Served) -> None:
    names = ("reader", "other", "weak")
    groups = {name: frozenset({"readers" if name != "weak" else "weak"}) for name in names}
    grants = {"read": frozenset({"readers", "weak"}), "subscribe-durable": frozenset({"readers"})}
    permissions = (Permission(Pattern.parse(">"), BOTH, grants),)  # type: ignore[arg-type]
    users = dict.fromkeys(names, tuple(hash_password("secret", 4096)))
    login_check = LoginCheck(ServerConfig(users=users, groups=groups, permissions=permissions))
    async with serving(login_check=login_check, leases=served.leases) as web:
        statuses = [(await web.post(PLACE, json=asked(), headers=basic(name, "secret"))).status for name in names]
        assert statuses == [201, 201, 403]
        refused = await web.post(PLACE, json=asked(), headers=basic("weak", "secret"))
        assert "needs the permission read and subscribe-durable for all destinations" in await refused.text()
        token = (await (await web.post(PLACE, json=asked(), headers=basic("reader", "secret"))).json())["lease"]
        for method in (web.post, web.delete):
            assert (await method(f"{PLACE}/{token}", json={}, headers=basic("other", "secret"))).status == 404
        assert len(served.kept()) == 3


async def test_a_lease_that_ends_while_it_is_renewed(served: Served) -> None:
    token, _ = await served.leases.begin("", "user 1", "reader", 0, 10_000)
    await asyncio.gather(
        served.leases.renew("192.0.2.1", "user 1", token, 10_000),
        served.leases.end("192.0.2.2", "user 1", token),
    )
    assert (served.kept(), served.files()) == ([], 0)


def restarted(served: Served, lease_max_ms: int = HOUR_MS) -> LogLeases:
    leases = served.within(lease_max_ms)
    leases.adopt()
    return leases


async def test_a_restarted_gateway_goes_on_with_leases(served: Served) -> None:
    async with serving(leases=served.leases) as web:
        token = (await (await web.post(PLACE, json=asked())).json())["lease"]
    served.now_ms += 30_000
    assert served.kept() == [], "over, because nobody was there to renew it"
    async with serving(leases=restarted(served)) as web:
        (lease,) = served.kept()
        assert lease.until_ms == served.now_ms + 60_000, "time for its reader to come back"
        told = await (await web.post(f"{PLACE}/{token}", json={"lease_ms": 10_000})).json()
        assert told == {"lease": token, "until_ms": served.now_ms + 10_000}
        assert [one.until_ms for one in served.kept()] == [served.now_ms + 10_000]
        assert (await web.post(f"{PLACE}/{token}x", json={})).status == 404
        assert (await web.delete(f"{PLACE}/{token}")).status == 200
        assert (served.kept(), served.files()) == ([], 0)


async def test_a_lease_of_which_nobody_asks_after_a_restart(served: Served) -> None:
    for number in range(2):
        await served.leases.begin("", "user 1", f"reader {number}", 0, 10_000)
    leases = restarted(served)
    served.now_ms += 60_000
    assert served.kept() == []
    await leases.begin("", "user 1", "reader 2", 0, 10_000)
    assert served.files() == 1, "those that are over have gone"


async def test_restarts_make_no_lease_longer_than_a_local_one(served: Served) -> None:
    token, _ = await served.within(90_000).begin("", "user 1", "reader", 0, 60_000)
    served.now_ms += 60_000
    leases = restarted(served, 90_000)
    assert [one.until_ms for one in served.kept()] == [BEGIN_MS + 90_000]
    renewed = await leases.renew("", "user 1", token, 60_000)
    assert renewed.lease.until_ms == BEGIN_MS + 90_000
    served.now_ms += 30_000
    restarted(served, 90_000)
    assert served.kept() == []
    with pytest.raises(LookupError):
        await restarted(served).renew("", "user 2", token, 10_000)


def test_what_is_no_lease_of_a_reader_elsewhere_stays_as_it_is(served: Served) -> None:
    write_lease(served.directory, "cafe", Lease("another store's", 0, BEGIN_MS + 1), BEGIN_MS)
    store_id = store_id_of(served.directory)
    write_lease(served.directory, store_id, Lease("an export on this machine", 0, BEGIN_MS + 1), BEGIN_MS)
    (served.directory / FOLDER / "odd.json").write_bytes(b"[]")
    before = {path.name: path.read_bytes() for path in (served.directory / FOLDER).iterdir()}
    restarted(served)
    assert {path.name: path.read_bytes() for path in (served.directory / FOLDER).iterdir()} == before
    (served.directory / "store.json").unlink()
    restarted(served)
