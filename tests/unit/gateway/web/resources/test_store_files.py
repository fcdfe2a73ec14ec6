"""The files of a store over HTTP: the list, ranges of one file, and who may have them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from config.matching import BOTH, Pattern
from config.model import ServerConfig
from config.permissions import Permission
from config.scram import hash_password
from gateway.answers.served_files import RANGE_BYTES_MAX
from gateway.logins.login_check import LoginCheck
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.store import LiveStore
from tests.support.store.sample_store import SampleStore
from tests.support.web import basic, serving

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

SEGMENT = f"commitlog/{0:020}.log"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=1 << 20) as sample:
        sample.send(sample.destination("orders"), b"x" * 500)
        sample.publish(is_clean=True)
        yield sample


def live(store: SampleStore) -> LiveStore:
    def never() -> Any:
        raise AssertionError("not asked for")

    return LiveStore(str(store.directory), never, never, RequestMemory())


async def asked(store: SampleStore, path: str, given: str = "") -> tuple[int, Mapping[str, str], bytes]:
    async with serving(store=live(store)) as client:
        url = URL(f"/api/store/file?path={quote(path, safe='')}", encoded=True)
        response = await client.get(url, headers={"Range": given} if given else {})
        return response.status, response.headers, await response.read()


async def test_the_list_has_what_a_backup_has(store: SampleStore) -> None:
    (store.directory / "index").mkdir(exist_ok=True)
    for name in ("lock", "index/1.idx", "commitlog/1.log.tmp", "consumequeue/notes"):
        (store.directory / name).write_bytes(b"of others")
    async with serving(store=live(store)) as client:
        told = await (await client.get("/api/store/files")).json()
    sizes = {one["path"]: one["size"] for one in told["files"]}
    kept = ["store.json", "checkpoint", *(f"commitlog/{path.name}" for path in store.directory.glob("commitlog/*.log"))]
    queues = [str(path.relative_to(store.directory)) for path in store.directory.rglob("*.cq")]
    assert queues and sorted(sizes) == sorted(kept + queues)
    assert all(size == (store.directory / path).stat().st_size for path, size in sizes.items())
    assert base64.b64decode(told["checkpoint"]) == (store.directory / "checkpoint").read_bytes()
    assert told["range_bytes_max"] == RANGE_BYTES_MAX


async def test_a_store_without_a_checkpoint(store: SampleStore) -> None:
    (store.directory / "checkpoint").write_bytes(bytes(512))
    async with serving(store=live(store)) as client:
        response = await client.get("/api/store/files")
        assert (response.status, "no checkpoint yet" in await response.text()) == (507, True)
        (store.directory / "checkpoint").unlink()
        assert (await client.get("/api/store/files")).status == 507


@pytest.mark.parametrize(
    ("given", "first", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=10-", 10, 10 + RANGE_BYTES_MAX),
        ("bytes=0-9999999999999999999", 0, RANGE_BYTES_MAX),
        (f"bytes=100-{100 + RANGE_BYTES_MAX}", 100, 100 + RANGE_BYTES_MAX),
        ("bytes=-7", -7, None),
        ("bytes=-9999999999999999999", 0, RANGE_BYTES_MAX),
    ],
)
async def test_a_range(store: SampleStore, given: str, first: int, stop: int | None) -> None:
    whole = (store.directory / SEGMENT).read_bytes()
    status, headers, octets = await asked(store, SEGMENT, given)
    assert (status, octets) == (206, whole[first:stop])
    begin = first % len(whole)
    assert headers["Content-Range"] == f"bytes {begin}-{begin + len(octets) - 1}/{len(whole)}"
    assert headers["ETag"].startswith('W/"') and headers["Accept-Ranges"] == "bytes"
    assert (headers["Content-Type"], headers["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")


@pytest.mark.parametrize("given", ["bytes=1099511627776-", "bytes=-0", "bytes=9999999999999999999-"])
async def test_a_range_past_the_end(store: SampleStore, given: str) -> None:
    status, headers, octets = await asked(store, SEGMENT, given)
    assert (status, headers["Content-Range"]) == (416, f"bytes */{(store.directory / SEGMENT).stat().st_size}")
    assert b"range-not-satisfiable" in octets


@pytest.mark.parametrize(
    "given",
    ["bytes=5-4", "bytes=-", "bytes=0-1,5-6", "octets=0-1", "bytes= 0-1", "bytes=+1-2", "bytes=\u0661-2"]
    + ["bytes=10000000000000000000-", "bytes=" + "9" * 5000 + "-", "bytes=0x1-0x2", "x"],
)
async def test_what_is_no_range(store: SampleStore, given: str) -> None:
    status, _, octets = await asked(store, SEGMENT, given)
    assert (status, b"allowed is one range of octets" in octets) == (400, True)


async def test_a_whole_file(store: SampleStore) -> None:
    status, headers, octets = await asked(store, "store.json")
    assert (status, octets) == (200, (store.directory / "store.json").read_bytes())
    assert "Content-Range" not in headers
    status, _, octets = await asked(store, SEGMENT)
    assert (status, b"allowed is a Range of up to 524288 of them" in octets) == (400, True)


@pytest.mark.parametrize(
    "path",
    ["../secret", "commitlog/../../secret", "/etc/passwd", "commitlog/..%2f..%2fsecret", "commitlog/1.log\0", "", "."]
    + ["lock", "commitlog", "commitlog/", "commitlog//1.log", "commitlog/1.log/", "commitlog/1.log\n", "store.json/."]
    + [f"commitlog/{7:020}.log", "consumequeue/1/4/../../../store.json", "readers/1.json", "commitlog/\u0661.log"],
)
async def test_other_files_are_not_served(store: SampleStore, path: str) -> None:
    (store.directory.parent / "secret").write_bytes(b"secret")
    (store.directory / "lock").write_bytes(b"secret")
    status, _, octets = await asked(store, path, "bytes=0-9")
    assert (status, b"is no file of the store" in octets) == (404, True)


async def test_a_path_that_is_too_long_or_missing(store: SampleStore) -> None:
    assert (await asked(store, "1" * 201))[0] == 400
    async with serving(store=live(store)) as client:
        assert (await client.get("/api/store/file")).status == 400


async def test_what_the_disk_refuses(store: SampleStore) -> None:
    (store.directory / "commitlog" / "5.log").mkdir()
    status, _, octets = await asked(store, "commitlog/5.log", "bytes=0-9")
    assert (status, b"cannot be read" in octets) == (507, True)


@pytest.mark.parametrize(
    ("login", "status"), [("reader", 200), ("browser", 403), ("clerk", 403), ("nobody", 401), ("", 401)]
)
@pytest.mark.parametrize("path", ["files", "file?path=store.json"])
async def test_who_may(store: SampleStore, path: str, login: str, status: int) -> None:
    users = dict.fromkeys(("reader", "browser", "clerk"), tuple(hash_password("secret", 4096)))
    everything, orders = Pattern.parse(">"), Pattern.parse("orders")
    permissions = (
        Permission(everything, BOTH, {"read": frozenset({"readers"}), "browse": frozenset({"browsers"})}),
        Permission(orders, BOTH, {"read": frozenset({"readers", "clerks"})}),
    )
    groups = {name: frozenset({f"{name}s"}) for name in users}
    login_check = LoginCheck(ServerConfig(users=users, groups=groups, permissions=permissions))
    async with serving(login_check=login_check, store=live(store)) as client:
        headers = basic(login, "secret") if login else {}
        assert (await client.get(f"/api/store/{path}", headers=headers)).status == status
