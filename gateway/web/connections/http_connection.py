"""One HTTP connection: aiohttp's, with a place among all sockets and time limits where aiohttp has none."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from aiohttp import web

from gateway.connections.admission import Place, Yielding
from gateway.connections.input_turns import InputTurns
from gateway.web.connections.paced_transport import PacedTransport

REQUEST_TIME_S: Final = 20.0  # from a connection's beginning, or the answer before, to the end of a request's body
HALF_CLOSED_S: Final = 5.0  # for the answer to a peer that has ended its output: it may as well be gone
STALL_TIME_S: Final = 60.0  # output waits, and the peer reads none of it
PIECE_BYTES: Final = 16 * 1024  # also because aiohttp's error for what is no request repeats all octets it was given
TOLD_AT_ONCE_BYTES: Final = 16 * 1024  # octets of an incomplete message of a WebSocket
HTTP_CONNECTIONS_MAX: Final = 64
HTTP_CONNECTIONS_PER_ADDRESS_MAX: Final = 48  # the other connections are for an operator at another address


class HttpConnection(asyncio.Protocol, Yielding):
    """inner: aiohttp's.  turns: of all connections.  yielding: those of the listener without a whole request.

    slow_answer: to a request of which only a part has come in time.
    The application says when a request is whole (``request_taken``) and answered.
    _unparsed: octets that wait for their turn, in pieces; reading rests meanwhile.
    """

    def __init__(
        self,
        inner: web.RequestHandler,
        place: Place,
        request_time_s: float = REQUEST_TIME_S,
        stall_time_s: float = STALL_TIME_S,
        half_closed_s: float = HALF_CLOSED_S,
        slow_answer: bytes = b"",
        turns: InputTurns | None = None,
        yielding: dict[Yielding, None] | None = None,
    ) -> None:
        self._yielding = {} if yielding is None else yielding
        self._inner = inner
        self._place = place
        self._request_time_s = request_time_s
        self._stall_time_s = stall_time_s
        self._half_closed_s = half_closed_s
        self._slow_answer = slow_answer
        self._turns = turns or InputTurns()
        self._unparsed: deque[bytes] = deque()
        self._unparsed_bytes = 0
        self._transport: PacedTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_serving = False
        self._has_begun = False  # octets of a request have come since the answer before
        self._is_input_over = False
        self._gather: Callable[[int], None] | None = None
        self._gathered_bytes = 0
        self._told_bytes = 0
        self._when_lost: dict[Callable[[], None], None] = {}

    def when_lost(self, before: Callable[[], None] | None, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` once when the connection is lost, instead of ``before``; None for none.

        Until then a peer that ends its output has left.
        """
        if before is not None:
            self._when_lost.pop(before, None)
        if callback is not None and self._transport is None:
            callback()
        elif callback is not None:
            self._when_lost[callback] = None

    def request_taken(self) -> None:
        """The whole request has come: its processing has no time limit."""
        self._is_serving = True
        self._yielding.pop(self, None)
        if self._is_input_over:
            self._arm(self._half_closed_s, self._give_up)
        else:
            self._cancel()

    def request_answered(self) -> None:
        """The next request's time begins now, because its first octets may have come with the one before."""
        self._is_serving = self._has_begun = False
        if self._transport is not None:
            self._yielding.pop(self, None)
            self._yielding[self] = None  # the last one
            self._arm(self._request_time_s, self._end_slow)
        if self._is_input_over:
            self._inner.close()  # once the answer is written

    def upgraded(self, gather: Callable[[int], None]) -> None:
        """The socket is a WebSocket now, and has a place among the messaging connections instead.

        gather: is called with the octets so far of an incomplete message.
        """
        self.request_taken()
        self._place.leave()
        self._gather = gather

    def message_taken(self) -> None:
        """Note that a message of the WebSocket was handed over."""
        self._gathered_bytes = self._unparsed_bytes
        if self._told_bytes:
            self._tell()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        paced = self._transport = PacedTransport(cast(asyncio.Transport, transport))
        self._yielding[self] = None
        self._arm(self._request_time_s, self._end_slow)
        self._inner.connection_made(paced)

    def data_received(self, data: bytes) -> None:
        is_waiting = bool(self._unparsed)
        self._unparsed.extend(data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))
        self._unparsed_bytes += len(data)
        if self._gather is not None:
            self._gathered_bytes += len(data)
            if self._gathered_bytes - self._told_bytes >= TOLD_AT_ONCE_BYTES:
                self._tell()
        if not is_waiting:
            while self._unparsed and self._turns.take():
                self._parse()
            self._rest()

    def eof_received(self) -> bool | None:
        """Return True to keep our side open for the answer to a request that has come or is coming.

        A peer that has left looks the same.  One that leaves while something waits to hear of it is not kept.
        """
        while self._unparsed:
            self._parse()
        is_asking = self._is_serving or self._has_begun
        if self._gather is not None or not is_asking or self._when_lost:
            return None
        self._is_input_over = True
        self._arm(self._half_closed_s, self._give_up)
        return True

    def pause_writing(self) -> None:
        self._arm(self._stall_time_s, self._give_up)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._is_serving:
            self._cancel()
        else:
            self._arm(self._stall_time_s, self._give_up)  # the rest of the answer; the next request may have begun
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._cancel()
        self._yielding.pop(self, None)
        self._transport = None
        self._unparsed.clear()
        self._place.leave()
        self._inner.connection_lost(error)
        while self._when_lost:
            self._when_lost.popitem()[0]()

    def give_way(self) -> None:
        self._yielding.pop(self, None)
        self._place.leave()
        self._give_up()

    def _parse(self) -> None:
        """Give aiohttp the next piece."""
        if self._timer is None and not self._is_serving:
            self._arm(self._request_time_s, self._end_slow)
        self._has_begun = True
        piece = self._unparsed.popleft()
        self._unparsed_bytes -= len(piece)
        self._inner.data_received(piece)

    def _go_on(self) -> None:
        if self._unparsed:
            self._parse()
        self._rest()

    def _rest(self) -> None:
        """Read nothing more while octets wait for their turn."""
        if self._transport is not None:
            self._transport.rest(bool(self._unparsed))
        if self._unparsed:
            self._turns.wait(self._go_on)

    def _tell(self) -> None:
        if self._gather is not None:
            self._told_bytes = self._gathered_bytes
            self._gather(self._gathered_bytes)

    def _arm(self, time_s: float, end: Callable[[], None]) -> None:
        self._cancel()
        self._timer = asyncio.get_running_loop().call_later(time_s, end)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_slow(self) -> None:
        """End a connection whose request has not come in time; who has sent a part of one gets an answer."""
        if self._transport is None or not self._has_begun:
            self._give_up()
            return
        self._transport.write(self._slow_answer)
        self._transport.close()
        self._arm(self._stall_time_s, self._give_up)

    def _give_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def connection_of(request: web.Request) -> HttpConnection | None:
    """Return the connection that a request came on; None where it is served by another server, as in tests."""
    transport = request.transport
    protocol = None if transport is None else transport.get_protocol()
    return protocol if isinstance(protocol, HttpConnection) else None
