"""Which headers of a request name a trace.  Examples: https://www.w3.org/TR/trace-context/"""

from __future__ import annotations

import pytest

from gateway.web.rest.trace_context import trace_properties

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"


@pytest.mark.parametrize(
    "parent", [PARENT, PARENT[:-2] + "00", "cc" + PARENT[2:], "cc" + PARENT[2:] + "-what-may-come"]
)
def test_a_trace_becomes_properties(parent: str) -> None:
    assert trace_properties({"traceparent": parent}) == {"traceparent": parent}
    assert trace_properties({"traceparent": parent, "tracestate": STATE}) == {
        "traceparent": parent,
        "tracestate": STATE,
    }


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "ff" + PARENT[2:],
        PARENT.upper(),
        PARENT + "-more",
        PARENT[:-1],
        "00-" + "0" * 32 + PARENT[35:],
        PARENT[:36] + "0" * 16 + "-01",
        "cc" + PARENT[2:] + "-" + "x" * 500,
        "cc" + PARENT[2:] + "-größe",
    ],
)
def test_what_is_no_trace_is_left_out(parent: str) -> None:
    assert trace_properties({"traceparent": parent, "tracestate": STATE}) == {}


@pytest.mark.parametrize("state", ["", "a=" + "x" * 511, "a=\tb"])
def test_a_state_that_cannot_be_read_does_not_hide_the_trace(state: str) -> None:
    assert trace_properties({"traceparent": PARENT, "tracestate": state}) == {"traceparent": PARENT}


def test_a_state_alone_means_nothing() -> None:
    assert trace_properties({"tracestate": STATE}) == {}
