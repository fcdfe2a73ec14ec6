"""``/api/store/files`` lists the files of the store; ``/api/store/file`` gives ranges of one (RFC 9110, 14).

So a reader elsewhere reads a running gateway's store as its directory: ``spark_bridge/files/gateway_store.py``.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.answers.served_files import RANGE_BYTES_MAX, RANGES_ALLOWED, NoSuchRange, Part, bounds
from gateway.web.client_address import address_of
from gateway.web.management.store import LiveStore
from gateway.web.routing.fields import Text, shown
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import READS, Media, Route, Values
from gateway.web.routing.schemas import INTEGER, STRING, listed, members

OCTETS: Final = Media(("application/octet-stream",))
FILES: Final = members(
    checkpoint=STRING, range_bytes_max=INTEGER, files=listed(members(path=STRING, size=INTEGER, tag=STRING))
)


class StoreFileRoutes:
    def __init__(self, source: LiveStore) -> None:
        self._source = source

    def routes(self) -> list[Route]:
        return [
            Route(
                path="/api/store/files",
                take=self._files,
                name="storeFiles",
                says="List the files of the store as a backup has them, and its checkpoint of that moment in Base64.",
                permission=READS,
                answers={200: FILES},
                problems=(507,),
            ),
            Route(
                path="/api/store/file",
                take=self._file,
                name="storeFile",
                says="Return a file, or what the header Range asks for; at most range_bytes_max octets.",
                permission=READS,
                parameters=(Text("path", "Of a file in the list.", most=200),),
                answers={200: OCTETS, 206: OCTETS},
                problems=(404, 416, 507),
            ),
        ]

    async def _files(self, request: web.Request, asked: Values) -> web.Response:
        try:
            octets = await self._source.files(address_of(request))
        except OSError as error:
            raise Problem(507, f"the files of the store cannot be listed: {error}") from None
        return web.Response(body=octets, content_type="application/json", charset="utf-8")

    async def _file(self, request: web.Request, asked: Values) -> web.Response:
        given, path = request.headers.get("Range", ""), asked["path"]
        try:
            wanted = bounds(given)
        except ValueError:
            raise Problem(400, f"Range is {shown(given)}; allowed is {RANGES_ALLOWED}") from None
        try:
            part = await self._source.part(address_of(request), path, wanted)
        except FileNotFoundError:
            raise Problem(404, f"{shown(path)} is no file of the store; /api/store/files lists them") from None
        except NoSuchRange as error:
            headers = {"Content-Range": f"bytes */{error.size}", "ETag": _etag(error.tag)}
            raise Problem(416, f"Range is {shown(given)}; {error}", headers=headers) from None
        except OSError as error:
            raise Problem(507, f"{path} cannot be read: {error.strerror}") from None
        if wanted is None and len(part.octets) < part.size:
            raise Problem(400, f"{path} has {part.size} octets; allowed is a Range of up to {RANGE_BYTES_MAX} of them")
        return _answer(part, is_part=wanted is not None)


def _answer(part: Part, is_part: bool) -> web.Response:
    headers = {"ETag": _etag(part.tag), "Accept-Ranges": "bytes"}
    if is_part:
        headers["Content-Range"] = f"bytes {part.first}-{part.first + len(part.octets) - 1}/{part.size}"
    return web.Response(
        body=part.octets, status=206 if is_part else 200, headers=headers, content_type="application/octet-stream"
    )


def _etag(tag: str) -> str:
    # Weak: the file that is written to keeps its tag, and so do the octets below what was published.
    return f'W/"{tag}"'
