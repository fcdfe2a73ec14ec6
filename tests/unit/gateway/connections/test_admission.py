"""How many sockets may be open, of all and of one address."""

from __future__ import annotations

import pytest

from gateway.connections.admission import Admission
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import LINES_MAX
from gateway.settings.engine_settings import share


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (3, 3), (9, 9), (10, 9), (100, 90), (10_000, 9_000)])
def test_one_has_nine_tenths_unless_there_are_few(most: int, expected: int) -> None:
    assert share(most) == expected


def test_a_place_is_given_back_once() -> None:
    admission = Admission(2, 2, GatewayCounters())
    first = admission.admit("10.0.0.1")
    second = admission.admit("10.0.0.2")
    assert first is not None and second is not None
    first.leave()
    first.leave()
    assert admission.open_count == 1
    second.leave()
    assert admission.open_count == 0


def test_a_refused_place_takes_none() -> None:
    counters = GatewayCounters()
    admission = Admission(1, 1, counters)
    first = admission.admit("10.0.0.1")
    refused = admission.admit("10.0.0.2")
    assert first is not None and refused is not None
    assert refused.refusal == "1 connections are open, which is the limit"
    refused.leave()
    first.leave()
    assert (admission.open_count, counters.refused) == (0, 1)
    of_address = Admission(2, 1, counters)
    of_address.admit("10.0.0.1")
    second = of_address.admit("10.0.0.1")
    assert second is not None
    assert second.refusal == "1 connections of 10.0.0.1 are open, which is the limit for one address"


def test_a_host_of_ipv6_has_one_share_whatever_address_it_picks() -> None:
    admission = Admission(10, 2, GatewayCounters())
    places = [admission.admit(f"2001:db8::{number}") for number in range(3)]
    assert [place is not None and place.refusal for place in places] == [
        "",
        "",
        "2 connections of 2001:db8::/64 are open, which is the limit for one address",
    ]
    other = admission.admit("2001:db8:0:1::1")
    assert other is not None and other.refusal == ""


def test_refusals_one_after_the_other_are_not_more_lines_than_an_address_may_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = GatewayCounters()
    admission = Admission(1, 1, counters)
    admission.admit("10.0.0.1")
    for _ in range(LINES_MAX + 5):
        refused = admission.admit("10.0.0.1")
        assert refused is not None and refused.refusal
        refused.leave()
    assert len(caplog.records) == LINES_MAX
    assert (counters.refused, counters.left_out_lines) == (LINES_MAX + 5, 5)
