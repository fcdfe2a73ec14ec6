"""A gateway with tight limits, and honest clients beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.hostile.aftermath import check_faults, check_nothing_held, metrics
from tests.support.hostile.honest_clients import AmqpTrips, StompTrips, Trips
from tests.support.hostile.hostile_config import HONEST, hostile_config
from tests.support.hostile.hostile_peers import Hostiles
from tests.support.process.gateway_process import GatewayProcess, StartGateway

TRIPS = 3


@pytest.fixture(scope="session")
def attacked(start_session_gateway: StartGateway) -> GatewayProcess:
    """One gateway for all scenarios: none may leave anything behind."""
    gateway = start_session_gateway(hostile_config())
    gateway.http_login = HONEST
    return gateway


@pytest.fixture
def at_length(is_long: bool) -> None:
    """For what waits for the gateway's own times: it takes too long for a default run."""
    if not is_long:
        pytest.skip("the long form waits for times to run out")


@pytest.fixture
def trips(attacked: GatewayProcess) -> Iterator[list[Trips]]:
    """Honest clients of both protocols; once the test is over they have gone on, and nothing is left of the others."""
    pid = attacked.pid
    before = metrics(attacked)
    both: list[Trips] = [StompTrips(attacked, set(), 0), AmqpTrips(attacked)]
    yield both
    for one in both:
        one.more(TRIPS)
        one.stop()
    assert attacked.is_running and attacked.pid == pid
    check_nothing_held(attacked)
    check_faults(attacked)
    after = metrics(attacked)
    kept_queue = 'penstock_destination_depth{destination="honest.kept",kind="queue"}'
    kept_count = after[kept_queue] - before.get(kept_queue, 0)
    held_bytes = after["penstock_memory_bytes"]
    grown_bytes = held_bytes - before["penstock_memory_bytes"]
    # What the honest have sent to be kept is there, and nothing else.  It may be less than before: the few messages
    # that an earlier scenario has left expire after a minute.
    assert grown_bytes <= kept_count * 1_024, f"{grown_bytes:.0f} bytes more in memory"
    assert held_bytes >= after[kept_queue], (
        f"{held_bytes:.0f} bytes in memory, which holds {after[kept_queue]:.0f} messages"
    )


@pytest.fixture
def hostile(attacked: GatewayProcess, trips: list[Trips]) -> Iterator[Hostiles]:
    with Hostiles(attacked) as hostile:
        yield hostile
