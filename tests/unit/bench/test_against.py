from __future__ import annotations

from bench.against import RECORDED, table
from bench.scenarios import SCENARIOS


def report(rate: int, **wrong: int) -> dict[str, object]:
    counts = {"lost": 0, "duplicates": 0, "out_of_order": 0}
    return {"consumed_per_s": rate, "latency_us": {"p50": 100.0, "p99": 2_500.0}, **counts, **wrong}


def test_each_row_has_its_servers_beside_what_is_recorded() -> None:
    found = {
        "a": {"old": [report(10_000), report(30_000), report(20_000)], "new": [report(90_000, lost=1_234)]},
        "f1000": {"new": [report(1_000)]},
    }
    head, _, row_a, row_f = table(found, ["old", "new"]).splitlines()[-4:]
    assert head == f"| row | what | old | new | {' | '.join(RECORDED)} |"
    assert row_a.startswith("| a | queue, 1 KiB persistent, 1 to 1 | 20,000 | 90,000 (1,234 lost) | 3,792 | 37,518 |")
    assert row_f.startswith("| f1000 | 1,000 persistent msg/s | - | 2.5 | 5.8 |")


def test_every_row_is_recorded_for_every_broker() -> None:
    for recorded in RECORDED.values():
        assert list(recorded) == [scenario.name for scenario in SCENARIOS]
