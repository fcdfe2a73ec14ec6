"""Log lines of the HTTP listener: one for each malformed request, with a limit for each address."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError

from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import PERIOD_MS, LineLimit

log: Final = logging.getLogger("penstock.http")


class RequestLog(logging.LoggerAdapter[logging.Logger]):
    """The logger of aiohttp, which would otherwise write a traceback for each request that it cannot read."""

    def __init__(self, counters: GatewayCounters) -> None:
        super().__init__(log)
        self._counters = counters
        self._lines = LineLimit()

    def exception(self, msg: object, *args: object, exc_info: object = True, **options: object) -> None:
        """Take the arguments of aiohttp's call: the address is among them, and the exception."""
        if not isinstance(exc_info, HttpProcessingError):
            log.error(msg, *args, exc_info=exc_info)  # type: ignore[arg-type]
            return
        address = str(args[0]) if args else "?"
        left = self._lines.left(address, round(asyncio.get_running_loop().time() * 1_000))
        if left < 0:
            self._counters.left_out_lines += 1
            return
        more = "" if left else f"; more of {address} is left out for {PERIOD_MS // 1_000} s"
        what = exc_info.message.partition("\n")[0].rstrip(": ")
        log.warning("%s: not a request, answered %d: %s%s", address, exc_info.code, what, more)
