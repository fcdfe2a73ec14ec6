"""What pages of other sites may make a browser ask of the gateway: the one place that decides it.

A browser sends a page's requests with the user's login, Basic or cookie, whichever site the page is of.  Every page on
the same machine reaches a gateway there, even under a host name of its own choice (DNS rebinding).  The page does not
see the answer.  So the question is what a request does:

    Host          must be one that no foreign page can have
    Origin        must be our own; browsers send it unless they only read, as for an <img>
    other sites   (Sec-Fetch-Site) get what is open to everybody, and a link may show an answer as a page
    has_effect    of a route: it takes or holds something, so a link does not do it either

Browsers send Sec-Fetch-Site only to https and to this machine.  Elsewhere such a GET needs the Referer of an own page.
Source: Fetch Metadata Request Headers, "Sec-Fetch-Site"; RFC 9110 section 10.1.3.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from aiohttp import web

from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import Route

_FOREIGN: Final = ("cross-site", "same-site")
_BROWSER: Final = "Mozilla/"  # how the User-Agent of every browser begins
_READING: Final = ("GET", "HEAD")
# aiohttp fails where it is asked for the URL of a request whose Host is anything else (RFC 9110, 7.2).
_HOST: Final = re.compile(r"(?:\[(?P<literal>[^\[\]]+)\]|(?P<name>[^\[\]:/?#@]+))(?::(?P<port>[0-9]{0,5}))?")
PORT_MOST: Final = 65_535


class ForeignPages:
    """configured_host: of the listener's address; a valid ``Host`` besides literal IPs and localhost."""

    def __init__(self, configured_host: str) -> None:
        self._configured_host = configured_host.lower()

    def refuse(self, request: web.Request, route: Route | None, also_allowed: str = "") -> None:
        """Refuse what a page of another site may have caused and must not.

        route: None for an unknown path and for WebSockets.  also_allowed: of origins, in words.  Raises: Problem.
        """
        own = self._own_origins(request)
        origin = request.headers.get("Origin")
        if origin is not None and origin.lower() not in own:
            raise Problem(403, f"Origin is {origin[:200]!r}; allowed is this server's own, or none{also_allowed}")
        if route is not None and not route.has_effect and not route.permission.needs_login:
            return
        has_effect = route is not None and route.has_effect
        site = request.headers.get("Sec-Fetch-Site")
        if site in _FOREIGN:
            if has_effect or not _is_link(request):
                raise Problem(
                    403,
                    f"a page of another site asks for {request.path[:200]} (Sec-Fetch-Site: {site}); "
                    "allowed are programs and this server's pages",
                )
        elif site is None and has_effect and request.method in _READING:
            _refuse_unknown_site(request, own)

    def _own_origins(self, request: web.Request) -> tuple[str, str]:
        """Return the origins of this server's pages: https if a proxy in front of us speaks TLS.  Raises: Problem."""
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            seen = repr(hosts[0]) if hosts else "none"
            raise Problem(
                403, f"Host is {seen[:200]}; allowed is a literal IP address, localhost or {self._configured_host}"
            )
        host = hosts[0].lower()
        return f"http://{host}", f"https://{host}"

    def _is_own_host(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None or int(found["port"] or 0) > PORT_MOST:
            return False
        name = (found["literal"] or found["name"]).lower()
        if name in ("localhost", self._configured_host):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _is_link(request: web.Request) -> bool:
    """Return whether the answer becomes a page of its own, which the page with the link cannot read."""
    mode, shown_as = request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Dest")
    return request.method in _READING and (mode, shown_as) == ("navigate", "document")


def _refuse_unknown_site(request: web.Request, own: tuple[str, str]) -> None:
    """Refuse a browser that does not say from where, unless one of our pages asks.  Raises: Problem."""
    if not request.headers.get("User-Agent", "").startswith(_BROWSER):
        return
    if request.headers.get("Referer", "").lower().startswith(tuple(f"{one}/" for one in own)):
        return
    raise Problem(
        403,
        f"a browser asks for {request.path[:200]} and does not say from which site (no Sec-Fetch-Site, no Referer of "
        "this server's pages), so any page could cause this; allowed are this server's pages, https, requests other "
        f"than GET (as POST /api/destinations/DEST/take), and clients whose User-Agent does not begin with {_BROWSER}",
    )
