"""Log lines of the HTTP listener: one for each malformed request, a traceback for a defect of the gateway.

Both have a limit for each address, because a peer can provoke them.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gateway.process.log_lines import PeerLines

log: Final = logging.getLogger("penstock.http")


class RequestLog(logging.LoggerAdapter[logging.Logger]):
    """The logger of one connection for aiohttp, which would write a traceback for each request that it cannot read.

    address: of the peer.
    """

    def __init__(self, lines: PeerLines, address: str) -> None:
        super().__init__(log)
        self._lines = lines
        self._address = address

    def exception(self, msg: object, *args: object, exc_info: object = True, **options: object) -> None:
        error = exc_info if isinstance(exc_info, BaseException) else sys.exception()
        # The body's error has that of its encoding as its cause.
        known = error.__cause__ or error if isinstance(error, web.RequestPayloadError) else error
        if isinstance(known, HttpProcessingError):
            what = known.message.partition("\n")[0].rstrip(": ")
            self._lines.warn(log, self._address, f"not a request, answered {known.code}: {what}")
        elif isinstance(error, web.RequestPayloadError):
            self._lines.warn(log, self._address, f"not a request, answered 400: {' '.join(str(error).split())}")
        else:
            self._lines.defect(log, self._address, str(msg) % args if args else str(msg), error)
