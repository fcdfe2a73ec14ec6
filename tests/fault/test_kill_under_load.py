"""``kill -9`` of the real process under load: what was promised by a receipt holds over the restart."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.support.config import configurations
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.traffic import Consumer, Ledger, Producer, join

KILLS = 3
KILLS_LONG = 50
PROGRESS_LIMIT_S = 60.0


def await_progress(ledger: Ledger, confirmed: int, settled: int) -> None:
    """Wait until so many more messages are confirmed and settled than now."""
    with ledger.changed:
        wanted_confirmed = len(ledger.confirmed) + confirmed
        wanted_settled = len(ledger.settled) + settled
        moved = ledger.changed.wait_for(
            lambda: len(ledger.confirmed) >= wanted_confirmed and len(ledger.settled) >= wanted_settled,
            timeout=PROGRESS_LIMIT_S,
        )
        assert moved, (
            f"in {PROGRESS_LIMIT_S:.0f} s only {len(ledger.confirmed)} of {wanted_confirmed} were confirmed, "
            f"{len(ledger.settled)} of {wanted_settled} acknowledgements"
        )


def empty_the_queue(gateway: GatewayProcess, destination: str, ledger: Ledger) -> None:
    """Send one message more and consume up to it: whatever stands before it in the queue has then come."""
    producer = Producer(gateway, destination, ledger, count=1)
    join(producer)
    last = ledger.next_number - 1
    join(Consumer(gateway, destination, ledger, until=last), limit_s=120.0)


def test_receipts_hold_over_kills(
    start_gateway: StartGateway, unique: Callable[[str], str], is_long: bool, seed: int
) -> None:
    kills = KILLS_LONG if is_long else KILLS
    print(f"{kills} kills with --seed {seed}")
    draw = random.Random(seed)
    destination = f"/queue/{unique('kill')}"
    gateway = start_gateway(configurations.small_segments())
    ledger = Ledger()
    for kill in range(kills):
        producer = Producer(gateway, destination, ledger)
        consumer = Consumer(gateway, destination, ledger)
        # After the start, in the middle of a segment, at its end: the amount of work decides, then a moment's jitter.
        await_progress(ledger, confirmed=draw.randrange(1, 4_000), settled=draw.randrange(1, 2_000))
        time.sleep(draw.random() * 0.02)
        gateway.kill9()
        join(producer)
        join(consumer)
        assert not ledger.violations, f"before kill {kill + 1} of seed {seed}: {'; '.join(ledger.violations[:5])}"
        gateway.restart()
    empty_the_queue(gateway, destination, ledger)
    ledger.check_end()
    print(f"{len(ledger.confirmed)} confirmed, {len(ledger.settled)} acknowledged")


def test_orderly_stop_forgets_nothing(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    destination = f"/queue/{unique('stop')}"
    gateway = start_gateway(configurations.small_segments())
    ledger = Ledger()
    for _ in range(2):
        producer = Producer(gateway, destination, ledger)
        consumer = Consumer(gateway, destination, ledger)
        await_progress(ledger, confirmed=2_000, settled=500)
        assert gateway.terminate() == 0
        join(producer)
        join(consumer)
        gateway.restart()
    empty_the_queue(gateway, destination, ledger)
    ledger.check_end()


def test_kill_while_nobody_consumes(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    destination = f"/queue/{unique('backlog')}"
    gateway = start_gateway(configurations.small_segments())
    ledger = Ledger()
    for _ in range(2):
        producer = Producer(gateway, destination, ledger)
        await_progress(ledger, confirmed=3_000, settled=0)
        gateway.kill9()
        join(producer)
        gateway.restart()
    empty_the_queue(gateway, destination, ledger)
    ledger.check_end()
