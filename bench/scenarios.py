"""The measurements with the load generator, and their targets: one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.processes import AMQP, STOMP

BASE: Final = ("--size", "1024", "--ack", "client-individual", "--prefetch", "1000", "--receipt-every", "1000")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row.

    arguments: of the load generator, after BASE.  protocol: its name there.
    sizing_messages: of the run that finds the rate; 0: ``rate`` is fixed.  subscribers: deliveries per message.
    has_ceiling: the yardstick also runs.
    delivered_per_s, ceiling_ratio: minimum; compiled_per_s: minimum of the compiled build, if higher;
    confirm_disk_ratio: maximum of confirmation p50 over a bare write + fdatasync;
    p50_ms, p99_ms: maximum, end to end.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    protocol: str = STOMP
    sizing_messages: int = 20_000
    rate: int = 0
    subscribers: int = 1
    has_ceiling: bool = True
    delivered_per_s: int = 0
    compiled_per_s: int = 0
    ceiling_ratio: float = 0.0
    confirm_disk_ratio: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0


PERSISTENT: Final = ("--persistent",)
NON_PERSISTENT: Final = ("--non-persistent",)

SCENARIOS: Final = (
    Scenario(
        "a",
        "queue, 1 KiB persistent, 1 to 1",
        PERSISTENT,
        delivered_per_s=60_000,
        ceiling_ratio=0.5,
    ),
    Scenario("b", "the same, non-persistent", NON_PERSISTENT, sizing_messages=40_000, delivered_per_s=80_000),
    Scenario("c", "the same, persistent, 256 B", (*PERSISTENT, "--size", "256"), delivered_per_s=75_000),
    Scenario(
        "e",
        "topic, 1 to 10 subscribers",
        (*NON_PERSISTENT, "--kind", "topic", "--consumers", "10", "--ack", "auto"),
        sizing_messages=10_000,
        subscribers=10,
        has_ceiling=False,
        delivered_per_s=200_000,
    ),
    Scenario(
        "g",
        "queue, persistent, 4 consumers at prefetch 1",
        (*PERSISTENT, "--ack", "client", "--prefetch", "1", "--consumers", "4"),
        sizing_messages=10_000,
        delivered_per_s=30_000,
    ),
    Scenario(
        "d1",
        "1 synchronous sender",
        (*PERSISTENT, "--receipt-every", "1"),
        sizing_messages=8_000,
        confirm_disk_ratio=2.5,
    ),
    Scenario(
        "d16",
        "16 synchronous senders",
        (*PERSISTENT, "--receipt-every", "1", "--producers", "16"),
        sizing_messages=16_000,
        delivered_per_s=12_000,
        ceiling_ratio=0.75,
    ),
    Scenario(
        "f1000",
        "1,000 persistent msg/s",
        (*PERSISTENT, "--rate", "1000"),
        sizing_messages=0,
        rate=1_000,
        has_ceiling=False,
        p50_ms=1.0,
        p99_ms=10.0,
    ),
    Scenario(
        "amqp-a",
        "AMQP 1.0, queue, 1 KiB persistent, 1 to 1",
        PERSISTENT,
        AMQP,
        delivered_per_s=60_000,
        compiled_per_s=100_000,
        ceiling_ratio=0.5,
    ),
    Scenario(
        "amqp-b",
        "the same, non-persistent",
        NON_PERSISTENT,
        AMQP,
        sizing_messages=40_000,
        delivered_per_s=90_000,
        compiled_per_s=160_000,
    ),
    Scenario(
        "amqp-f1000",
        "AMQP 1.0, 1,000 persistent msg/s",
        (*PERSISTENT, "--rate", "1000"),
        AMQP,
        sizing_messages=0,
        rate=1_000,
        has_ceiling=False,
        p50_ms=0.5,
        p99_ms=8.0,
    ),
)
