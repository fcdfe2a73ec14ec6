"""Entries of the audit log: one line each that no value can forge, and not too many of one address."""

from __future__ import annotations

import json
import logging

import pytest

from gateway.process.audit_log import VALUE_MAX_CHARACTERS, Audited, AuditLog
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import FORMATTERS, LINES_MAX

FORGED = 'queue://a" result="done"\n2026-11-26 INFO penstock.audit user="root"\u2028\u202e\ud800'


def entry(**values: str) -> Audited:
    return Audited(**{**dict.fromkeys(("user", "address", "protocol", "action", "target", "result"), ""), **values})


def test_an_entry_has_every_field(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    AuditLog(GatewayCounters()).managed(Audited("ann", "::1", "http", "startPurge", "destination=queue://a", "done"))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("penstock.audit", "INFO")
    text = FORMATTERS["text"].format(record)
    assert text.endswith(
        'user="ann" address="::1" protocol="http" action="startPurge" target="destination=queue://a" result="done"'
    )
    assert json.loads(FORMATTERS["json"].format(record))["audit"] == {
        "user": "ann",
        "address": "::1",
        "protocol": "http",
        "action": "startPurge",
        "target": "destination=queue://a",
        "result": "done",
    }


@pytest.mark.parametrize("field", ["user", "address", "action", "target"])
def test_a_value_forges_neither_a_line_nor_a_field(field: str, caplog: pytest.LogCaptureFixture) -> None:
    AuditLog(GatewayCounters()).denied("h", entry(**{field: FORGED, "result": "access-denied"}))
    (record,) = caplog.records
    text = FORMATTERS["text"].format(record)
    assert text.isprintable() and text.isascii()
    assert text.endswith(' result="access-denied"') and text.count(' result="') == 1
    document = json.loads(FORMATTERS["json"].format(record))
    assert (document["audit"][field], document["audit"]["result"]) == (FORGED, "access-denied")


def test_long_values_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    AuditLog(GatewayCounters()).denied("h", entry(target="x" * 100_000))
    assert len(caplog.records[0].getMessage()) < VALUE_MAX_CHARACTERS + 200


def test_denied_requests_of_one_address_have_a_limit_and_management_has_none(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    counters = GatewayCounters()
    audit = AuditLog(counters, clock=lambda: 0.0)
    for _ in range(LINES_MAX + 5):
        audit.denied("h", entry(result="access-denied"))
    audit.denied("other", entry(result="access-denied"))
    assert (len(caplog.records), counters.left_out_lines) == (LINES_MAX + 1, 5)
    for _ in range(LINES_MAX):
        audit.managed(entry(address="h", result="done"))
    assert len(caplog.records) == 2 * LINES_MAX + 1
