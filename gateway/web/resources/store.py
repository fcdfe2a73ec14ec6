"""``/api/store``: ``query`` finds messages, ``dump`` pages through the log, ``du`` reports space.

``POST backup`` makes a copy.  ``POST verify`` and ``POST rebuild`` begin tasks that take a while; ``GET verify/N``
reports their progress.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from aiohttp import web

from config.values import MOMENT_ALLOWED
from engine.store.read.backup import Backup
from engine.store.read.found_message import LIMIT_DEFAULT, LIMIT_MAX
from engine.values.errors import PenstockError, StoreError
from gateway.answers.questions import WrongQuestion
from gateway.answers.store_dump import PAGE_RECORDS, PAGE_RECORDS_MAX
from gateway.answers.store_tasks import REBUILD, VERIFY, TaskRefused
from gateway.web.client_address import address_of
from gateway.web.management.store import LiveStore
from gateway.web.routing.fields import Flag, Text, Whole, shown
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import MANAGES, READS, SEES, Route, Take, Values
from gateway.web.routing.schemas import ANY_OBJECT, BOOLEAN, INTEGER, STRING, listed, members, schema_of

TASK: Final = members(task=INTEGER, done=BOOLEAN, failure=STRING, findings=listed(ANY_OBJECT), result=ANY_OBJECT)
FOUND: Final = members(
    messages=listed(ANY_OBJECT),
    next_before=INTEGER,
    scanned_bytes=INTEGER,
    damaged=listed(INTEGER),
    until_offset=INTEGER,
    until_ms=INTEGER,
)
_QUERY: Final = (
    Text("id", "JMSMessageID; an id, a key or a destination is needed, or a key and a destination.", ""),
    Text("key", "Correlation id or key of the messages.", ""),
    Text("destination", "To which they were sent.", ""),
    Text("from", f"Store time of the oldest: {MOMENT_ALLOWED}.", ""),
    Text("to", "Store time of the newest, likewise.", ""),
    Whole("from-offset", "Queue offset of the first.", default=None),
    Whole("to-offset", "Queue offset of the last.", default=None),
    Whole("before", "For the next page: next_before of the last answer.", default=None),
    Whole("limit", "Messages in the answer.", 1, LIMIT_MAX, LIMIT_DEFAULT),
    Flag("body", "With their bodies."),
)


class StoreRoutes:
    def __init__(self, source: LiveStore) -> None:
        self._source = source

    def routes(self) -> list[Route]:
        return [
            Route(
                path="/api/store/query",
                take=self._query,
                name="queryStore",
                says="Find messages in the log, newest first: by id, by key, or by destination.",
                permission=READS,
                parameters=_QUERY,
                answers={200: FOUND},
                problems=(404,),
            ),
            Route(
                path="/api/store/du",
                take=self._space,
                name="storeSpace",
                says="Report the use of space by segment, and what needs each segment.",
                permission=SEES,
                parameters=(Flag("why", "Also say why segments that nobody needs still exist."),),
                answers={200: ANY_OBJECT},
                problems=(507,),
            ),
            Route(
                path="/api/store/dump",
                take=self._dump,
                name="dumpLog",
                says="Return a page of records of the log, without the contents of messages.",
                permission=READS,
                parameters=(
                    Whole("from", "Log offset of the first record.", default=None),
                    Whole("to", "Log offset of the end.", default=None),
                    Whole("limit", "Records in the answer.", 1, PAGE_RECORDS_MAX, PAGE_RECORDS),
                ),
                answers={200: members(records=listed(ANY_OBJECT), next_from=INTEGER, until_offset=INTEGER)},
                problems=(404,),
            ),
            Route(
                method="POST",
                path="/api/store/backup",
                take=self._backup,
                name="backUpStore",
                says="Copy the store to a directory of the gateway's machine.",
                permission=MANAGES,
                body=(Text("directory", "A path: an empty directory, or a new one."),),
                answers={200: schema_of(Backup)},
                problems=(409,),
            ),
            *self._task_routes("verify", self._verify, self._verified, "Verify"),
            *self._task_routes("rebuild", self._rebuild, self._rebuilt, "Rebuild the derived files of"),
        ]

    def _task_routes(self, what: str, start: Take, status: Take, does: str) -> list[Route]:
        return [
            Route(
                method="POST",
                path=f"/api/store/{what}",
                take=start,
                name=f"{what}Store",
                says=f"{does} the store; one such task runs at a time.",
                permission=MANAGES,
                answers={201: TASK},
                problems=(409,),
            ),
            Route(
                path=f"/api/store/{what}/{{number}}",
                take=status,
                name=f"{what}Status",
                says="Show the progress and the result of the task.",
                permission=SEES,
                parameters=(Whole("number", "Of the task.", most=999_999_999),),
                answers={200: TASK},
                problems=(404,),
            ),
        ]

    async def stop(self, application: web.Application) -> None:
        await self._source.stop()

    async def _query(self, request: web.Request, asked: Values) -> web.Response:
        return await _answer(self._source.query(address_of(request), request.query))

    async def _dump(self, request: web.Request, asked: Values) -> web.Response:
        return await _answer(self._source.dump(address_of(request), request.query))

    async def _verify(self, request: web.Request, asked: Values) -> web.Response:
        return self._start(VERIFY)

    async def _rebuild(self, request: web.Request, asked: Values) -> web.Response:
        return self._start(REBUILD)

    async def _verified(self, request: web.Request, asked: Values) -> web.Response:
        return self._status(asked["number"])

    async def _rebuilt(self, request: web.Request, asked: Values) -> web.Response:
        return self._status(asked["number"])

    def _start(self, what: str) -> web.Response:
        try:
            return web.json_response(self._source.start(what), status=201)
        except TaskRefused as error:
            raise Problem(409, str(error)) from None

    def _status(self, number: int) -> web.Response:
        found = self._source.status(number)
        if found is None:
            raise Problem(404, f"no task {number}")
        return web.json_response(found)

    async def _space(self, request: web.Request, asked: Values) -> web.Response:
        return web.json_response(await self._source.space(address_of(request), asked["why"]))

    async def _backup(self, request: web.Request, asked: Values) -> web.Response:
        directory = asked["directory"]
        try:
            return web.json_response(await self._source.backup(address_of(request), directory))
        except (StoreError, OSError) as error:
            raise Problem(409, str(error)) from None
        except ValueError:
            raise Problem(400, f"directory is {shown(directory)}; allowed is a path") from None


async def _answer(asked: Awaitable[bytes]) -> web.Response:
    try:
        return web.Response(body=await asked, content_type="application/json", charset="utf-8")
    except WrongQuestion as error:
        raise Problem(400, str(error)) from None
    except PenstockError as error:
        raise Problem(404, str(error), error.condition) from None
