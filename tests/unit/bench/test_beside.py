from __future__ import annotations

import pytest

from bench.processes import AMQP, STOMP, Beside, Broken
from bench.report import markdown


def test_addresses_and_prefixes_of_a_broker_beside() -> None:
    beside = Beside("artemis=stomp://one:61613/,amqp://[::1]:5672/queue://", ("admin", "secret"))
    assert (beside.name, beside.login) == ("artemis", ("admin", "secret"))
    assert beside.addresses == {STOMP: "one:61613", AMQP: "[::1]:5672"}
    assert beside.prefixes == {STOMP: "", AMQP: "queue://"}


@pytest.mark.parametrize("spec", ["artemis", "=stomp://one:1/", "a=http://one:1/", "a=stomp://one/", "a=stomp://:1/"])
def test_what_is_no_broker_is_refused(spec: str) -> None:
    with pytest.raises(Broken, match="not NAME=stomp"):
        Beside(spec, ("", ""))


def report(rate: int) -> dict[str, object]:
    counts = {"received": 10, "lost": 0, "duplicates": 0, "out_of_order": 0}
    return {
        "consumed_per_s": rate,
        "watched_cpu_s": 1.0,
        "is_noisy": False,
        "latency_us": {"p50": 1, "p99": 2},
        **counts,
    }


def test_its_rate_stands_beside_that_of_the_gateway() -> None:
    table = markdown(
        {
            "commit": "c",
            "date": "d",
            "machine": {"processors": 2, "processor": "p", "memory_gib": 1, "kernel": "k", "python": "3"},
            "runs": 1,
            "disk": [{"p50_us": 1.0, "p99_us": 1.0}],
            "scenarios": {"a": {"penstock": [report(30_000)], "artemis": [report(20_000)]}},
        }
    )
    assert "| a: artemis | 20,000/s | Penstock: 1.50 times |" in table
