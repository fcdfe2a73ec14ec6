"""``kill -9`` while messages with duplicate ids are sent: whoever sends again until it is confirmed has sent once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from gateway.cli.shared.blocking_client import BlockingClient, ConnectionLost
from protocols.stomp.codec.frames import BEGIN, COMMIT, ERROR, RECEIPT, SEND
from tests.fault.test_transfers_over_kills import take_all
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway

KILLS: Final = 2
KILLS_LONG: Final = 30
MESSAGES: Final = 400
CONFIRMED_BEFORE_KILL: Final = 30


@pytest.mark.parametrize("is_transacted", [False, True], ids=["single", "transactions"])
def test_what_is_sent_until_it_is_confirmed_is_there_once(
    start_gateway: StartGateway, unique: Callable[[str], str], is_transacted: bool, is_long: bool
) -> None:
    queue = f"/queue/{unique('once')}"
    gateway = start_gateway(configurations.small_segments())
    bodies = [b"%d" % number for number in range(MESSAGES)]
    unconfirmed = list(bodies)
    for _ in range(KILLS_LONG if is_long else KILLS):
        confirmed = _send(gateway, queue, unconfirmed, is_transacted, CONFIRMED_BEFORE_KILL)
        gateway.restart()
        # One of those that were confirmed is sent again, too.
        unconfirmed = [body for body in unconfirmed if body not in confirmed] + sorted(confirmed)[:1]
    while unconfirmed:
        confirmed = _send(gateway, queue, unconfirmed, is_transacted, 0)
        unconfirmed = [body for body in unconfirmed if body not in confirmed]
    assert sorted(take_all(gateway, queue)) == sorted(bodies)


def _send(gateway: GatewayProcess, queue: str, bodies: list[bytes], is_transacted: bool, kill_after: int) -> set[bytes]:
    """Send all; return those that were confirmed, or refused as known.  kill_after: so many of them, 0: never."""
    client = raw_stomp.client(gateway)
    confirmed: set[bytes] = set()
    try:
        for body in bodies:
            _send_one(client, queue, body, is_transacted)
        while len(confirmed) < len(bodies):
            frame = client.next_frame()
            headers = frame.head.headers
            confirmed.add(headers["receipt-id"].encode())
            if frame.command == ERROR:
                assert headers["message"] == "duplicate id", headers
                break  # the rest is sent on another connection
            assert frame.command == RECEIPT
            if len(confirmed) == kill_after:
                gateway.kill9()
    except ConnectionLost:
        pass
    finally:
        client.close()
    return confirmed


def _send_one(client: BlockingClient, queue: str, body: bytes, is_transacted: bool) -> None:
    name = body.decode()
    headers = [("destination", queue), ("persistent", "true"), ("_AMQ_DUPL_ID", name)]
    if is_transacted:
        client.send(BEGIN, [("transaction", name)])
        client.send(SEND, [*headers, ("transaction", name)], body)
        client.send(COMMIT, [("transaction", name), ("receipt", name)])
    else:
        client.send(SEND, [*headers, ("receipt", name)], body)
