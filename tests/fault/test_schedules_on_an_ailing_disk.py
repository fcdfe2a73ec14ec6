"""``penstock schedule cancel`` while the disk refuses: an answer with a reason, not silence."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from gateway.process import exit_codes
from protocols.stomp.codec.frames import SEND
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.ailing_gateway import HANGS, heal, write_faults
from tests.support.process.command import penstock
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.waiting import wait_until

LIMIT_S = 60.0


def cancel(gateway: GatewayProcess, *words: str) -> tuple[int, str]:
    done = penstock("schedule", "cancel", *words, "--http", gateway.http_url)
    return done.returncode, done.stdout + done.stderr


def schedule(gateway: GatewayProcess, name: str, count: int) -> list[str]:
    """Return the ids."""
    client = raw_stomp.client(gateway)
    for number in range(count):
        headers = [("destination", f"/queue/{name}"), ("AMQ_SCHEDULED_DELAY", "3600000"), ("receipt", str(number))]
        client.send(SEND, headers, b"x")
    client.flush()
    for _ in range(count):
        client.next_frame()
    client.close()
    return [one["id"] for one in gateway.get_json("/api/schedule")["schedules"]]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(errno.EIO, "Input/output error", id="refuses"),
        pytest.param(HANGS, "nothing was synced for 5000 ms", id="hangs"),
    ],
)
def test_a_cancel_says_what_became_of_it(
    fault: int, reason: str, start_gateway: StartGateway, unique: Callable[[str], str]
) -> None:
    name = unique("q")
    gateway = start_gateway(configurations.small_segments(), module="tests.support.process.ailing_gateway")
    ids = schedule(gateway, name, 3)
    write_faults(gateway.data, ("fdatasync", fault, "/commitlog/"))
    code, said = cancel(gateway, ids[0])
    assert code == exit_codes.FAILED
    assert "cancelled 1 message, but the disk has not taken that yet: " in said
    assert reason in said
    if fault == errno.EIO:
        code, said = cancel(gateway, "--destination", name)
        assert code == exit_codes.FAILED
        assert "nothing was cancelled, because the disk refuses writes: " in said
        assert reason in said
        heal(gateway.data)
        wait_until(lambda: gateway.get("/healthz")[0] == 200, "/healthz says 200 again", limit_s=LIMIT_S)
        assert cancel(gateway, "--destination", name) == (0, "cancelled 2 messages\n")
    gateway.kill9()
    heal(gateway.data)
    gateway.restart()
    pending = gateway.get_json("/api/schedule")["pending"]
    assert pending == 0 if fault == errno.EIO else pending in (2, 3)
