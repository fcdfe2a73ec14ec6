"""Log lines of the HTTP listener: one for each malformed request, with a limit for each address."""

from __future__ import annotations

import logging
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError

from gateway.process.log_lines import PeerLines

log: Final = logging.getLogger("penstock.http")


class RequestLog(logging.LoggerAdapter[logging.Logger]):
    """The logger of aiohttp, which would otherwise write a traceback for each request that it cannot read."""

    def __init__(self, lines: PeerLines) -> None:
        super().__init__(log)
        self._lines = lines

    def exception(self, msg: object, *args: object, exc_info: object = True, **options: object) -> None:
        """Take the arguments of aiohttp's call: the address is among them, and the exception."""
        if not isinstance(exc_info, HttpProcessingError):
            log.error(msg, *args, exc_info=exc_info)  # type: ignore[arg-type]
            return
        address = str(args[0]) if args else "?"
        what = exc_info.message.partition("\n")[0].rstrip(": ")
        self._lines.warn(log, address, f"not a request, answered {exc_info.code}: {what}")
