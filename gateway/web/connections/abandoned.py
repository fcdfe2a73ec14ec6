"""Ends a request that only asks when its client leaves: its place in the line is free, and no answer is made."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.web.connections.http_connection import HttpConnection


async def while_asked(request: web.Request, handler: Handler, connection: HttpConnection | None) -> web.StreamResponse:
    """Return the handler's answer.  The handler is cancelled where it waits once the connection is lost.

    Raises: ConnectionResetError if it was.
    """
    task = asyncio.current_task()
    if connection is None or task is None:
        if request.transport is None:
            raise ConnectionResetError
        return await handler(request)  # served by another server, as in tests
    is_lost = False

    def leave() -> None:
        nonlocal is_lost
        is_lost = True
        task.cancel()

    connection.when_lost(None, leave)
    try:
        return await handler(request)
    except asyncio.CancelledError:
        if not is_lost or task.uncancel():
            raise  # the gateway stops
        raise ConnectionResetError from None
    finally:
        connection.when_lost(leave, None)
