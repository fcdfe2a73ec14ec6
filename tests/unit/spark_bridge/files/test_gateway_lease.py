"""A lease of a gateway that is away for a while, by a client that scripts its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from spark_bridge.errors import LakeError
from spark_bridge.files.gateway_client import Answer, GatewayClient
from spark_bridge.files.gateway_lease import GatewayLease
from tests.support.process.waiting import wait_until

LIMIT_S: Final = 60.0
LEASE_MS: Final = 60_000
RENEWALS: Final = 6_000


class Scripted(GatewayClient):
    """Answers with a status, 0 for none; the last one again and again."""

    def __init__(self, *statuses: int) -> None:
        super().__init__("http://127.0.0.1:1", {})
        self._statuses = list(statuses)
        self.asked = 0

    def post(self, path: str, members: Mapping[str, object]) -> Answer:
        status = self._statuses[min(self.asked, len(self._statuses) - 1)]
        self.asked += 1
        if not status:
            raise LakeError("cannot reach it")
        return Answer(status, {}, json.dumps({"lease": "token", "detail": f"answer {status}"}).encode())

    def delete(self, path: str) -> Answer:
        return Answer(200, {}, b"{}")


def test_a_gateway_that_is_away_is_asked_again() -> None:
    client = Scripted(201, 0, 503, 200, 200)
    lease = GatewayLease(client, "reader", 0, LEASE_MS, RENEWALS)
    wait_until(lambda: client.asked > 4, "the gateway to be back", LIMIT_S)
    lease.end()
    assert lease.note == ""


def test_a_gateway_that_refuses_is_not() -> None:
    client = Scripted(201, 0, 404, 200)
    lease = GatewayLease(client, "reader", 0, LEASE_MS, RENEWALS)
    wait_until(lambda: lease.note.endswith("does not wait for it: answer 404"), "the refusal", LIMIT_S)
    lease.end()
    assert client.asked == 3
