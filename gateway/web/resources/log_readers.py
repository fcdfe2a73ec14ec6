"""``/api/store/readers``: exports and named streams, and how those elsewhere say how far they have read the log."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import asdict

from aiohttp import web

from engine.store.read.export_watermarks import EXPORT, STREAM, Watermark
from engine.store.read.leases import READER_CHARACTERS
from engine.store.read.log_readers import LogReader
from engine.store.read.selection import CHARACTERS_MAX, PATTERNS_MAX, Selection, parse
from gateway.web.client_address import address_of
from gateway.web.management.log_readers import LogReaders, WrongPlace
from gateway.web.management.store import LiveStore
from gateway.web.routing.fields import Choice, Flag, Text, Whole, shown
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import SEES, TELLS, Route, Values
from gateway.web.routing.schemas import INTEGER, STRING, listed, members, schema_of


class ReaderName(Text):
    def __init__(self) -> None:
        most = READER_CHARACTERS
        super().__init__("reader", "Name of the reader.", most=most, meaning="a printable text, not empty,")

    def take_text(self, text: str) -> str:
        if not text or not text.isprintable():
            raise ValueError
        return super().take_text(text)


class LogReaderRoutes:
    def __init__(self, store: LiveStore, source: LogReaders) -> None:
        self._store = store
        self._source = source

    def routes(self) -> list[Route]:
        store = Text("store", "Id of the store that was read.", most=READER_CHARACTERS)
        reader = (Choice("kind", "Of the reader.", (STREAM, EXPORT)), ReaderName())
        to_offset = Whole("to_offset", "Log offset below which it has everything.")
        return [
            Route(
                path="/api/store/readers",
                take=self._readers,
                name="logReaders",
                says="List exports and named streams, and how far behind the log they are.",
                permission=SEES,
                answers={200: members(readers=listed(schema_of(LogReader)))},
                problems=(507,),
            ),
            Route(
                method="POST",
                path="/api/store/readers",
                take=self._begin,
                name="beginLogReader",
                says="Let retention know a reader at a position, also before the one that it had.",
                permission=TELLS,
                body=(
                    store,
                    *reader,
                    Text("destination", "Pattern of what it reads, or several with commas.", most=CHARACTERS_MAX),
                    to_offset,
                    Flag("has_messages", "Whether messages count as exported by it.", True),
                ),
                answers={200: members(to_offset=INTEGER)},
                problems=(409, 429, 507),
            ),
            Route(
                method="POST",
                path="/api/store/readers/advance",
                take=self._advance,
                name="advanceLogReader",
                says="Let a reader go on from its position.",
                permission=TELLS,
                body=(store, *reader, to_offset),
                answers={200: members(to_offset=INTEGER)},
                problems=(404, 409, 507),
                is_traffic=True,  # as an acknowledgement
            ),
            Route(
                method="DELETE",
                path="/api/store/readers",
                take=self._end,
                name="endLogReader",
                says="Forget a reader: retention waits for it no longer.",
                permission=TELLS,
                parameters=reader,
                answers={200: members(ended=STRING)},
                problems=(404, 507),
            ),
        ]

    async def _readers(self, request: web.Request, asked: Values) -> web.Response:
        found = await self._store.readers(address_of(request))
        return web.json_response({"readers": [asdict(reader) for reader in found]})

    async def _begin(self, request: web.Request, asked: Values) -> web.Response:
        mark = Watermark(
            reader=asked["reader"],
            chosen=_pattern(asked["destination"]),
            to_offset=asked["to_offset"],
            written_ms=0,
            is_stream=asked["kind"] == STREAM,
            has_messages=asked["has_messages"],
        )
        await _written(self._source.begin(address_of(request), asked["store"], mark))
        return web.json_response({"to_offset": mark.to_offset})

    async def _advance(self, request: web.Request, asked: Values) -> web.Response:
        is_stream, to_offset = asked["kind"] == STREAM, asked["to_offset"]
        address = address_of(request)
        await _written(self._source.advance(address, asked["store"], is_stream, asked["reader"], to_offset))
        return web.json_response({"to_offset": to_offset})

    async def _end(self, request: web.Request, asked: Values) -> web.Response:
        await _written(self._source.end(address_of(request), asked["kind"] == STREAM, asked["reader"]))
        return web.json_response({"ended": asked["reader"]})


def _pattern(text: str) -> Selection:
    try:
        return parse(text)
    except ValueError:
        allowed = (
            f"a pattern such as orders.eu, orders.> or queue://orders.*; with commas, at most {PATTERNS_MAX} of them"
        )
        raise Problem(400, f"destination is {shown(text)}; allowed is {allowed}") from None


async def _written(writing: Awaitable[None]) -> None:
    try:
        await writing
    except WrongPlace as error:
        raise Problem(409, str(error)) from None
    except OSError as error:
        raise Problem.unwritten("the position", error) from None
