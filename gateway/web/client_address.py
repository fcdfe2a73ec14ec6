"""Where a request comes from."""

from __future__ import annotations

from typing import Final

from aiohttp import web

UNKNOWN: Final = "?"


def address_of(request: web.Request) -> str:
    """Return the address of the client, without its port; UNKNOWN for a connection that has none any more."""
    return request.remote or UNKNOWN
