"""The web console: a page, its style and its script, which asks ``/api``.  ``/`` and ``/console`` lead to it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aiohttp import web

from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import Permission, Route, Values

_STATIC: Final = Path(__file__).with_name("static")
# Everything comes from here, nothing is inline: a name from a client could not become a script.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE: Final = Permission(needs_login=False)  # the page has a form to log in, and shows nothing before
# To this server alone: the Referer shows that a page of the console asks, where browsers send no Sec-Fetch-Site.
_REFERRER: Final = "same-origin"
_KINDS: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PAGE: Final = "index.html"


class ConsoleRoutes:
    """The files are read at the start: a request names one of them, never a path."""

    def __init__(self) -> None:
        self._files = {file.name: file for file in _STATIC.iterdir() if file.suffix in _KINDS}
        self._octets = {name: file.read_bytes() for name, file in self._files.items()}

    def routes(self) -> list[Route]:
        return [
            Route(path=path, take=take, name=name, says="", permission=PAGE, is_hidden=True)
            for path, take, name in (
                ("/", self._root, "root"),
                ("/console", self._root, "console"),
                ("/console/", self._file, "page"),
                ("/console/{name}", self._file, "file"),
            )
        ]

    async def _root(self, request: web.Request, asked: Values) -> web.Response:
        raise web.HTTPFound("/console/")

    async def _file(self, request: web.Request, asked: Values) -> web.Response:
        name = request.match_info.get("name", _PAGE)
        if name not in self._octets:
            raise Problem(404, "no such file of the console")
        return web.Response(
            body=self._octets[name],
            content_type=_KINDS[self._files[name].suffix],
            charset="utf-8",
            headers={"Content-Security-Policy": _POLICY, "Referrer-Policy": _REFERRER},
        )
