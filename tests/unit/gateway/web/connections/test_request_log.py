"""Lines about HTTP requests: one for each that is none, a traceback for a defect of the gateway."""

from __future__ import annotations

import logging

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import LINES_MAX, PeerLines
from gateway.web.connections.request_log import RequestLog


async def test_a_request_that_is_none_is_one_line_and_not_many_from_one_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = GatewayCounters()
    request_log = RequestLog(PeerLines(counters))
    for _ in range(LINES_MAX + 5):
        error = BadHttpMessage("Invalid header token:\n\n  b'x\\r'\n    ^")
        request_log.exception("Error handling request from %s", "192.0.2.1", exc_info=error)
    assert len(caplog.records) == LINES_MAX
    assert caplog.records[0].getMessage() == "192.0.2.1: not a request, answered 400: Invalid header token"
    assert all(record.exc_info is None for record in caplog.records)
    assert counters.left_out_lines == 5


async def test_a_defect_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    request_log = RequestLog(PeerLines(GatewayCounters()))
    request_log.exception("Error handling request from %s", "192.0.2.1", exc_info=ValueError("ours"))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None and record.exc_info[0] is ValueError
