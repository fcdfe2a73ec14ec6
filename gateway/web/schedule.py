"""``GET /api/schedule`` lists scheduled messages, ``POST /api/schedule/cancel`` cancels them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from aiohttp import web

from config.names import DestinationName
from engine.values.errors import StoreError
from gateway.web.bodies import json_object

LIMIT_DEFAULT: Final = 100
LIMIT_MOST: Final = 10_000
IDS_MOST: Final = 10_000
AFTER_DIGITS: Final = 40
DISK_REFUSES: Final = 507  # Insufficient Storage: the change cannot be stored

Named = tuple[int, str]  # kind of config.matching and name


class ScheduleSource(ABC):
    """Called on the event loop that owns the broker."""

    @abstractmethod
    async def listed(self, destination: Named | None, limit: int) -> dict[str, Any]:
        """Return the messages that are due first.  Raises: LookupError if the destination does not exist."""

    @abstractmethod
    async def cancel(self, ids: list[str]) -> dict[str, Any]:
        """Cancel messages by their ids; return once that is durable.  Raises: StoreError if the disk refuses it."""

    @abstractmethod
    async def cancel_all(self, destination: Named, after: int) -> dict[str, Any]:
        """Cancel the messages for a destination, for at most some seconds; return once that is durable.

        "next" of the answer is "", or the place from which the next request continues.  Raises: StoreError; LookupError
        if the destination does not exist.
        """


class ScheduleRoutes:
    def __init__(self, source: ScheduleSource) -> None:
        self._source = source

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/schedule", self._list)
        router.add_post("/api/schedule/cancel", self._cancel)

    async def _list(self, request: web.Request) -> web.Response:
        try:
            limit = _limit(request.query.get("limit", str(LIMIT_DEFAULT)))
            text = request.query.get("destination")
            destination = None if text is None else _destination(text)
            return web.json_response(await self._source.listed(destination, limit))
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        except LookupError as error:
            return web.Response(status=404, text=f"{error.args[0]}\n")

    async def _cancel(self, request: web.Request) -> web.Response:
        asked = await json_object(request)
        if asked is None or set(asked) not in ({"ids"}, {"destination"}, {"destination", "after"}):
            return web.Response(status=400, text="the body is not a JSON object with either 'ids' or 'destination'\n")
        try:
            if "ids" in asked:
                return web.json_response(await self._source.cancel(_ids(asked["ids"])))
            after = _after(asked.get("after", ""))
            return web.json_response(await self._source.cancel_all(_destination(asked["destination"]), after))
        except StoreError as error:
            return web.Response(status=DISK_REFUSES, text=f"{error}\n")
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        except LookupError as error:
            return web.Response(status=404, text=f"{error.args[0]}\n")


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= LIMIT_MOST):
        raise ValueError(f"limit is {text[:80]!r}; allowed is 1 to {LIMIT_MOST}")
    return int(text)


def _ids(asked: object) -> list[str]:
    if not isinstance(asked, list) or not all(isinstance(one, str) for one in asked) or len(asked) > IDS_MOST:
        raise ValueError(f"'ids' is not a list of at most {IDS_MOST} texts")
    return asked


def _after(asked: object) -> int:
    if asked == "":
        return -1
    if not isinstance(asked, str) or not (asked.isascii() and asked.isdigit() and len(asked) <= AFTER_DIGITS):
        raise ValueError(f"'after' is {str(asked)[:80]!r}; allowed is the 'next' of an answer")
    return int(asked)


def _destination(asked: object) -> Named:
    if not isinstance(asked, str):
        raise ValueError("'destination' is not a text")
    try:
        return DestinationName().parse(asked)
    except ValueError:
        raise ValueError(f"destination is {asked[:200]!r}, allowed is {DestinationName().allowed}") from None
