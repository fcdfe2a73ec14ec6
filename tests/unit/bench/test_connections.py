"""Rows of many connections, and the clients that make them."""

from __future__ import annotations

from typing import Any

from bench import observed
from bench.connection_peers import Attempts, Peer, quantiles
from bench.connections import rows


def traffic(p50_ms: float = 1.0, lost: int = 0) -> dict[str, Any]:
    latency = {"p50": p50_ms * 1000, "p99": 2_000.0, "max": 3_000.0}
    return {"latency_us": latency, "lost": lost, "duplicates": 0, "out_of_order": 0, "other_cores": 0.5}


def verdicts(found: dict[str, Any]) -> list[str]:
    return [row[3] for row in rows(found)]


def test_idle_connections_are_held_to_memory_and_processor() -> None:
    memory = {"now": 110.0, "peak": 399.0}
    idle = {"cores": 0.19, "lost": 0, "before_mib": 60.0, "memory_mib": memory}
    assert verdicts({"idle": idle}) == ["reached"] * 3
    assert (
        verdicts({"idle": {**idle, "cores": 0.2, "lost": 1, "memory_mib": {"now": 110.0, "peak": 401.0}}})
        == ["MISSED"] * 3
    )


def test_connections_beside_traffic_must_all_be_made_and_lose_none_of_it() -> None:
    attempts = Attempts([1.0, 2.0], wall_s=1.0)
    beside = {"alone": traffic(), "beside": traffic(), "others": {**attempts.summary(), "processor_s": 0.001}}
    assert verdicts({"connects": beside}) == ["", "reached", "", "", "reached"]
    assert "0.50 ms of the gateway's processor each" in rows({"connects": beside})[0][1]
    attempts.failures["too many connections"] += 1
    failed = {**beside, "beside": traffic(lost=1), "others": {**attempts.summary(), "processor_s": 0.001}}
    assert verdicts({"handshakes": failed}) == ["", "MISSED", "", "", "MISSED"]


def test_quantiles_of_few_and_of_none() -> None:
    assert quantiles([]) == {"p50_ms": 0.0, "p99_ms": 0.0, "max_ms": 0.0}
    assert quantiles([5.0]) == {"p50_ms": 5.0, "p99_ms": 5.0, "max_ms": 5.0}


async def test_a_peer_finds_frames_among_heart_beats_and_over_reads() -> None:
    peer = Peer()
    peer.data_received(b"\n\nRECEIPT\nreceipt-id:r\n\n\0\n\nCONN")
    peer.data_received(b"ECTED\n\n\0\n")
    assert [await peer.answer(), await peer.answer()] == [b"RECEIPT\nreceipt-id:r\n\n", b"CONNECTED\n\n"]


def test_observation_may_take_three_percent() -> None:
    def reports(rate: int) -> list[dict[str, Any]]:
        return [{"consumed_per_s": rate, "watched_cpu_s": 1.0, "received": 10}]

    for seen, verdict in ((97_000, "reached"), (96_999, "MISSED")):
        both = {"penstock": reports(100_000), "observed": reports(seen)}
        (row,) = observed.rows({"a": {"reports": both, "scrapes": 5, "draws": 3}})
        assert row[3] == verdict
    assert "5 scrapes, 3 drawings" in row[1]
