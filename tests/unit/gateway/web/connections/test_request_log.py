"""Lines about HTTP requests: one for each that is none, a traceback for a defect of the gateway."""

from __future__ import annotations

import logging

import pytest
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, ContentEncodingError

from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import LINES_MAX, PeerLines
from gateway.web.connections.request_log import RequestLog


async def test_a_request_that_is_none_is_one_line_and_not_many_from_one_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = GatewayCounters()
    request_log = RequestLog(PeerLines(counters), "192.0.2.1")
    for _ in range(LINES_MAX + 5):
        error = BadHttpMessage("Invalid header token:\n\n  b'x\\r'\n    ^")
        request_log.exception("Error handling request from %s", "192.0.2.1", exc_info=error)
    assert len(caplog.records) == LINES_MAX
    assert caplog.records[0].getMessage() == "192.0.2.1: not a request, answered 400: Invalid header token"
    assert all(record.exc_info is None for record in caplog.records)
    assert counters.left_out_lines == 5


async def test_a_body_that_cannot_be_read_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    request_log = RequestLog(PeerLines(GatewayCounters()), "192.0.2.1")
    error = web.RequestPayloadError("400, message:\n  Can not decode content-encoding: gzip")
    request_log.exception("Unhandled exception", exc_info=error)
    error.__cause__ = ContentEncodingError("Can not decode content-encoding: gzip")
    request_log.exception("Unhandled exception", exc_info=error)
    assert [(record.getMessage(), record.exc_info) for record in caplog.records] == [
        ("192.0.2.1: not a request, answered 400: 400, message: Can not decode content-encoding: gzip", None),
        ("192.0.2.1: not a request, answered 400: Can not decode content-encoding: gzip", None),
    ]


async def test_defects_that_a_peer_can_provoke_have_the_limit_of_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    counters = GatewayCounters()
    request_log = RequestLog(PeerLines(counters), "192.0.2.1")
    for _ in range(LINES_MAX + 5):
        try:
            raise ValueError("ours")
        except ValueError:
            request_log.exception("%s %s: a defect", "GET", "/x")
    assert (len(caplog.records), counters.left_out_lines) == (LINES_MAX, 5)
    assert caplog.records[0].getMessage() == "192.0.2.1: GET /x: a defect"
    assert "ValueError: ours" in caplog.text


async def test_a_defect_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    request_log = RequestLog(PeerLines(GatewayCounters()), "192.0.2.1")
    request_log.exception("got 5%", exc_info=ValueError("ours"))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None and record.exc_info[0] is ValueError
