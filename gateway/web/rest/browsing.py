"""Browsing over HTTP: pages of what waits in a queue; a cursor is a browser that waits for the next request."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final

from config.matching import QUEUE
from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.sources.queue import Queue
from engine.values.errors import LimitReached
from engine.values.options import SubscribeOptions
from gateway.answers.message_document import NO_MORE
from gateway.web.rest.client_registry import RestClients, new_token, wait_for
from gateway.web.rest.named_destination import named_destination
from gateway.web.rest.requests import Asking, Gone, Page
from gateway.web.rest.rest_client import RestClient

CURSORS_PER_USER_MAX: Final = 16
CURSOR_S: Final = 60.0  # a page may be asked for so long after the last one
PAGE_S: Final = 10.0  # for one page, if the disk is slow


@dataclass(eq=False, slots=True)
class Cursor:
    client: RestClient
    consumer: Consumer
    holder: str
    body_form: str
    timer: asyncio.TimerHandle | None = None


class Browsing:
    """_cursors: by token; _busy: clients whose next page is being made."""

    def __init__(self, clients: RestClients) -> None:
        self._clients = clients
        self._cursors: dict[str, Cursor] = {}
        self._busy: set[RestClient] = set()

    async def browse(self, asking: Asking, queue: str, selector: str, limit: int, body_form: str) -> Page:
        """Return the first page of what waits.  Raises: LookupError if there is no such queue."""
        client = self._clients.client(asking)
        self._clients.engine.access.require(client, "browse", QUEUE, queue)
        found = named_destination(self._clients.engine.destinations, (QUEUE, queue))
        assert isinstance(found, Queue)
        if Counter(one.holder for one in self._cursors.values())[client.holder] >= CURSORS_PER_USER_MAX:
            raise LimitReached(f"{client.holder} has {CURSORS_PER_USER_MAX} cursors open, which is the limit")
        options = SubscribeOptions(INDIVIDUAL, name="http", selector=selector, is_browser=True, is_credited=True)
        consumer = self._clients.subscribed(client, found.name, options)
        return await self._page(asking, Cursor(client, consumer, client.holder, body_form), limit)

    async def browse_on(self, asking: Asking, token: str, limit: int) -> Page:
        """Return the next page.  Raises: Gone."""
        cursor = self._cursors.get(token)
        if cursor is None or cursor.holder != self._clients.client(asking).holder:
            raise Gone(f"no cursor {token[:80]!r}; each lasts {CURSOR_S:g} s and leads to one page: begin again")
        del self._cursors[token]
        assert cursor.timer is not None
        cursor.timer.cancel()
        return await self._page(asking, cursor, limit)

    async def _page(self, asking: Asking, cursor: Cursor, limit: int) -> Page:
        client = cursor.client
        self._busy.add(client)
        try:
            return await self._shown(asking, cursor, limit)
        except BaseException:
            self._clients.leave(client, False)
            raise
        finally:
            self._busy.discard(client)

    async def _shown(self, asking: Asking, cursor: Cursor, limit: int) -> Page:
        client = cursor.client
        with self._clients.turn():
            if not client.is_gone:
                cursor.consumer.grant(limit)
                self._clients.engine.output_drained(client)
        clock = asyncio.get_running_loop().time
        end_s = clock() + PAGE_S
        while len(client.deliveries) < limit and not (client.is_output_full or client.has_ended or client.is_gone):
            client.arrived.clear()
            await wait_for(client.arrived, end_s - clock())
            if clock() >= end_s:
                break  # a disk that reads nothing: what is here is the page
        page = client.take_deliveries()
        shown = [(delivery.message, NO_MORE) for delivery in page]
        documents = await self._clients.documents(asking.address, shown, cursor.body_form)
        with self._clients.turn():
            for delivery in page if not client.is_gone else ():
                self._clients.engine.acknowledge_unconfirmed(delivery)  # makes room; in the queue nothing changes
        token = ""
        if client.failure is not None:
            raise client.failure
        if client.has_ended:
            self._clients.leave(client, False)
        elif not client.is_gone:
            token = new_token()
            self._cursors[token] = cursor
            cursor.timer = asyncio.get_running_loop().call_later(CURSOR_S, self._forget, token)
        return Page(documents, token)

    def _forget(self, token: str) -> None:
        cursor = self._cursors.pop(token, None)
        if cursor is not None:
            self._clients.leave(cursor.client, False)

    def stop(self) -> None:
        for token in list(self._cursors):
            self._forget(token)
        for client in self._busy:
            self._clients.leave(client, False)
