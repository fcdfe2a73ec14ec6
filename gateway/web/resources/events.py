"""``/api/events``: the overview after each sample, as server-sent events.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Final

from aiohttp import web

from gateway.logins.login_check import LoginCheck
from gateway.web.client_address import address_of
from gateway.web.resources.stat import present
from gateway.web.routing.credentials import CHECKED
from gateway.web.routing.fields import Whole
from gateway.web.routing.problems import HEADERS, Problem
from gateway.web.routing.routes import SEES, Media, Route, Values
from gateway.web.samples.sampler import Sampler

STREAMS_MAX: Final = 24  # each holds one of the connections of HTTP
STREAMS_PER_ADDRESS_MAX: Final = 16
STREAM_MOST_MS: Final = 600_000  # then the browser asks again
SILENCE_S: Final = 15.0  # after it a comment shows whether the peer is still there


class EventRoutes:
    """_streams: open ones by address.  _event: octets of the sample ``_number``, made once for all streams."""

    def __init__(self, sampler: Sampler, login_check: LoginCheck) -> None:
        self._sampler = sampler
        self._login_check = login_check
        self._streams: Counter[str] = Counter()
        self._stopping = asyncio.Event()
        self._number = 0
        self._event = b""

    async def stop(self, application: web.Application) -> None:
        self._stopping.set()

    def routes(self) -> list[Route]:
        return [
            Route(
                path="/api/events",
                take=self._take,
                name="events",
                says="Send the overview after each sample, as server-sent events.",
                permission=SEES,
                parameters=(Whole("for_ms", "How long, after the first one.", 0, STREAM_MOST_MS, STREAM_MOST_MS),),
                answers={200: Media(("text/event-stream",))},
                problems=(429,),
                has_head=False,  # it would not end
                has_effect=True,  # it holds one of few places
            )
        ]

    async def _take(self, request: web.Request, asked: Values) -> web.StreamResponse:
        address = address_of(request)
        for count, most, whose in (
            (self._streams.total(), STREAMS_MAX, "all"),
            (self._streams[address], STREAMS_PER_ADDRESS_MAX, address),
        ):
            if count >= most:
                raise Problem(429, f"{count} streams of events of {whose} are open, which is the limit")
        self._streams[address] += 1
        try:
            return await self._stream(request, asked["for_ms"] / 1000)
        finally:
            self._streams[address] -= 1
            if not self._streams[address]:
                del self._streams[address]

    async def _stream(self, request: web.Request, for_s: float) -> web.StreamResponse:
        answer = web.StreamResponse(headers=HEADERS)
        answer.content_type, answer.charset = "text/event-stream", "utf-8"
        await self._sampler.sampled()
        await answer.prepare(request)
        clock = asyncio.get_running_loop().time
        end_s = clock() + for_s
        number = 0
        try:
            await answer.write(await self._latest())
            number = self._sampler.number
            while not self._stopping.is_set() and (left_s := end_s - clock()) > 0:
                number, before = await self._later(number, min(left_s, SILENCE_S)), number
                if not self._may_see():
                    break
                await answer.write(await self._latest() if number > before else b":\n\n")
        except ConnectionError:
            pass  # the peer has gone
        return answer

    def _may_see(self) -> bool:
        """Say whether who has asked may still see everything: a reload may have changed that, and a token may end."""
        login_check = self._login_check
        if not login_check.is_required:
            return True
        checked = CHECKED.get()
        user = None if checked is None else login_check.counts_as(checked)
        if user is None:
            return False
        groups = user.groups
        return SEES.allowed_by(lambda action: login_check.permissions.allows_everywhere(action, groups))

    async def _later(self, number: int, time_s: float) -> int:
        """Wait for the next sample, the end of the time or of the gateway; return the number of the last sample."""
        waits = [asyncio.ensure_future(one) for one in (self._sampler.later_than(number), self._stopping.wait())]
        try:
            await asyncio.wait(waits, timeout=time_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        return self._sampler.number

    async def _latest(self) -> bytes:
        number = self._sampler.number
        if number != self._number or not self._event:
            document = json.dumps(present(await self._sampler.sampled(), self._sampler.alarms))
            self._event = f"id: {number}\ndata: {document}\n\n".encode()
            self._number = number
        return self._event
