"""Readers elsewhere that say how far they are: what retention sees of them, who may, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from config.matching import BOTH, Pattern
from config.model import ServerConfig
from config.permissions import Action, Permission
from config.scram import hash_password
from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import FOLDER, Watermarks, read_watermarks
from engine.values.destination import QUEUE
from gateway.logins.login_check import LoginCheck
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.log_readers import READERS_MOST, LogReaders
from tests.support.store.sample_store import SampleStore
from tests.support.web import basic, serving

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

BEGIN_MS: Final = 1_700_000_000_000
PLACE: Final = "/api/store/readers"
ADVANCE: Final = f"{PLACE}/advance"


class Served:
    """A store whose readers are elsewhere, and the time of the gateway."""

    def __init__(self, sample: SampleStore) -> None:
        self.now_ms = BEGIN_MS
        self.directory = sample.directory
        self.store_id = sample.store_id
        self.end = sample.offset
        self.readers = LogReaders(str(sample.directory), RequestMemory(), lambda: self.now_ms)

    def known(self) -> Watermarks:
        """Return what retention sees."""
        return read_watermarks(RealFiles(), str(self.directory), self.store_id)

    def places(self) -> list[tuple[str, int]]:
        return [(mark.title(), mark.to_offset) for mark in self.known().marks]

    def begun(self, **others: Any) -> dict[str, Any]:
        return self.advanced(**{"destination": "orders.>", **others})

    def advanced(self, **others: Any) -> dict[str, Any]:
        return {"store": self.store_id, "kind": "stream", "reader": "billing", "to_offset": 300, **others}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with SampleStore(tmp_path / "data") as sample:
        for _ in range(10):
            sample.send(sample.destination("orders.eu"), b"x" * 100)
        sample.publish(is_clean=True)
        yield Served(sample)


async def test_a_reader_begins_goes_on_and_ends(served: Served) -> None:
    async with serving(readers=served.readers) as web:
        for _ in range(2):  # an answer that was lost is asked for again
            begun = await web.post(PLACE, json=served.begun())
            assert (begun.status, await begun.json()) == (200, {"to_offset": 300})
        (mark,) = served.known().marks
        assert (str(mark.chosen), mark.written_ms, mark.has_messages) == ("orders.>", BEGIN_MS, True)
        served.now_ms += 100_000
        for _ in range(2):
            assert (await web.post(ADVANCE, json=served.advanced(to_offset=500))).status == 200
        (mark,) = served.known().marks
        assert (mark.to_offset, mark.written_ms, str(mark.chosen)) == (500, BEGIN_MS + 100_000, "orders.>")
        assert mark.pace() == 2.0
        ended = await web.delete(PLACE, params={"kind": "stream", "reader": "billing"})
        assert (ended.status, served.places()) == (200, [])
        again = await web.delete(PLACE, params={"kind": "stream", "reader": "billing"})
        assert (again.status, (await again.json())["condition"]) == (404, "unknown-reader")


async def test_it_goes_back_only_if_it_begins(served: Served) -> None:
    async with serving(readers=served.readers) as web:
        assert (await web.post(PLACE, json=served.begun())).status == 200
        refused = await web.post(ADVANCE, json=served.advanced(to_offset=299))
        told = await refused.json()
        assert (refused.status, told["condition"]) == (409, "conflict")
        assert told["detail"].startswith("to_offset is 299; stream 'billing' is at 300 already, which another reader")
        assert served.places() == [("stream 'billing'", 300)]
        assert (await web.post(PLACE, json=served.begun(to_offset=299))).status == 200
        assert served.places() == [("stream 'billing'", 299)]


async def test_an_export_has_all_that_matches(served: Served) -> None:
    async with serving(readers=served.readers) as web:
        for reader, kind, destination, has_messages in (
            ("/lake", "export", f"orders.>,{'x' * 9_000}", True),
            ("billing", "stream", "orders.eu", True),
            ("attempts", "stream", ">", False),
        ):
            asked = served.begun(
                reader=reader, kind=kind, destination=destination, has_messages=has_messages, to_offset=500
            )
            assert (await web.post(PLACE, json=asked)).status == 200
        further = served.advanced(kind="export", reader="/lake", to_offset=700)
        assert (await web.post(ADVANCE, json=further)).status == 200
    known = served.known()
    assert known.reached(77, QUEUE, "orders.eu") == (500, "billing")
    assert known.reached(77, QUEUE, "prices") == (0, "")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"to_offset": 1 << 40}, "to_offset is 1099511627776; the log can be read up to "),
        ({"store": "c0ffee00"}, "store is 'c0ffee00'; this gateway has '0badcafe'"),
    ],
)
async def test_places_that_no_reader_of_this_log_has(served: Served, wrong: dict[str, Any], says: str) -> None:
    async with serving(readers=served.readers) as web:
        assert (await web.post(PLACE, json=served.begun(to_offset=0))).status == 200
        for place, asked in ((PLACE, served.begun(**wrong)), (ADVANCE, served.advanced(**wrong))):
            refused = await web.post(place, json=asked)
            assert (refused.status, (await refused.json())["detail"].startswith(says)) == (409, True)
    assert served.places() == [("stream 'billing'", 0)]


@pytest.mark.parametrize(
    "wrong",
    [{"reader": ""}, {"reader": "x" * 201}, {"reader": "a\nb"}, {"reader": 7}, {"reader": "\ud800"}]
    + [{"to_offset": -1}, {"to_offset": "1"}, {"to_offset": 1 << 63}, {"to_offset": True}, {"to_offset": None}]
    + [{"kind": "lake"}, {"kind": None}, {"store": None}, {"store": "x" * 201}, {"more": 1}]
    + [
        {"destination": "a..b"},
        {"destination": ">.a"},
        {"destination": "a,,b"},
        {"destination": "x" * 10_001},
        {"has_messages": "no"},
    ],
)
async def test_what_is_no_reader(served: Served, wrong: dict[str, Any]) -> None:
    async with serving(readers=served.readers) as web:
        assert (await web.post(PLACE, json=served.begun(**wrong))).status == 400
        if not wrong.keys() & {"destination", "has_messages"}:
            assert (await web.post(ADVANCE, json=served.advanced(**wrong))).status == 400
    assert not (served.directory / FOLDER).exists()


async def test_who_is_not_known_cannot_go_on(served: Served) -> None:
    async with serving(readers=served.readers) as web:
        refused = await web.post(ADVANCE, json=served.advanced())
        assert (refused.status, (await refused.json())["condition"]) == (404, "unknown-reader")
        assert (await web.post(PLACE, json=served.begun())).status == 200
        assert (await web.post(ADVANCE, json=served.advanced(kind="export"))).status == 404
    assert served.places() == [("stream 'billing'", 300)]


async def test_so_many_readers_of_a_store(served: Served) -> None:
    async with serving(readers=served.readers) as web:
        for number in range(READERS_MOST):
            assert (await web.post(PLACE, json=served.begun(reader=f"{number}"))).status == 200
        refused = await web.post(PLACE, json=served.begun())
        assert (refused.status, (await refused.json())["condition"]) == (429, "limit-reached")
        assert (await web.post(PLACE, json=served.begun(reader="7", to_offset=400))).status == 200
        assert (await web.delete(PLACE, params={"kind": "stream", "reader": "7"})).status == 200
        assert (await web.post(PLACE, json=served.begun())).status == 200
    assert len(served.known().marks) == READERS_MOST


async def test_a_disk_that_refuses(served: Served) -> None:
    (served.directory / FOLDER).write_bytes(b"no directory")
    async with serving(readers=served.readers) as web:
        assert (await web.post(PLACE, json=served.begun())).status == 507
        assert (await web.post(ADVANCE, json=served.advanced())).status == 507
        assert (await web.delete(PLACE, params={"kind": "stream", "reader": "billing"})).status == 507


async def test_who_may(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    rights: dict[str, tuple[Action, ...]] = {
        "reader": ("read", "export"),
        "strong": ("read", "delete", "create", "write", "subscribe-durable", "unsubscribe"),
        "teller": ("export",),
    }
    grants = {
        action: frozenset(user for user, actions in rights.items() if action in actions)
        for action in {action for actions in rights.values() for action in actions}
    }
    users = dict.fromkeys(rights, tuple(hash_password("secret", 4096)))
    login_check = LoginCheck(
        ServerConfig(
            users=users,
            groups={name: frozenset({name}) for name in rights},
            permissions=(Permission(Pattern.parse(">"), BOTH, grants),),
        )
    )
    caplog.set_level(logging.INFO, "penstock.audit")
    async with serving(login_check=login_check, readers=served.readers) as web:
        for name, status in (("strong", 403), ("teller", 403), ("reader", 200)):
            headers = basic(name, "secret")
            begun = await web.post(PLACE, json=served.begun(), headers=headers)
            assert begun.status == status
            if status == 403:
                assert "needs the permission read and export for all destinations" in await begun.text()
            assert (await web.post(ADVANCE, json=served.advanced(), headers=headers)).status == status
            ended = await web.delete(PLACE, params={"kind": "stream", "reader": "billing"}, headers=headers)
            assert ended.status == status
        assert (await web.post(PLACE, json=served.begun())).status == 401
    done = [line.message for line in caplog.records if 'result="done"' in line.message]
    assert [line.split('action="')[1].split('"')[0] for line in done] == ["beginLogReader", "endLogReader"]
