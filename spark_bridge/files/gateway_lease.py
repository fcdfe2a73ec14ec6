"""A lease of a running gateway's log over HTTP, renewed while its reader lives."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Final

from engine.store.read.leases import LEASE_LEAST_MS, LEASE_MOST_MS, reader_elsewhere
from spark_bridge.errors import LakeError
from spark_bridge.files.gateway_client import GatewayClient

RENEWALS: Final = 3
END_LIMIT_S: Final = 5.0
PLACE: Final = "/api/store/leases"
NO_LEASES: Final = "it is one of an older version, which gives no leases"


class GatewayLease:
    """client: of this lease alone.  lease_ms: of the whole lease; then it is renewed no more.

    renewals: in the time that one of them gives.
    note: why retention does not wait, or no longer, "" while it does.
    A gateway that is away is asked again: when it is back, it goes on with the lease.
    """

    def __init__(
        self, client: GatewayClient, reader: str, from_offset: int, lease_ms: int, renewals: int = RENEWALS
    ) -> None:
        self.note = ""
        self._client = client
        self._until_s = monotonic() + lease_ms / 1000
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None
        self._is_refused = False
        self._renewals = renewals
        self._step_ms = max(LEASE_LEAST_MS, min(lease_ms, LEASE_MOST_MS))
        asked = {"reader": reader_elsewhere(reader), "from_offset": from_offset, "lease_ms": self._step_ms}
        self._token = self._taken(PLACE, asked, 201)
        if self._token:
            self._renewing = threading.Thread(target=self._renew, name="penstock-lease", daemon=True)
            self._renewing.start()

    def end(self) -> None:
        """Release the log.  If that fails, the lease ends by itself."""
        self._ended.set()
        if self._renewing is None:
            return
        self._renewing.join(END_LIMIT_S)
        if not self._renewing.is_alive():  # otherwise the gateway does not answer
            with suppress(LakeError):
                self._client.delete(f"{PLACE}/{self._token}")

    def _renew(self) -> None:
        while not self._ended.wait(self._step_ms / self._renewals / 1000):
            left_ms = int((self._until_s - monotonic()) * 1000)
            if left_ms < LEASE_LEAST_MS:
                self.note = "its lease has run out (--lease)"
                return
            asked = {"lease_ms": min(self._step_ms, left_ms)}
            if self._taken(f"{PLACE}/{self._token}", asked, 200):
                self.note = ""
            elif self._is_refused:
                return

    def _taken(self, path: str, asked: Mapping[str, object], status: int) -> str:
        """Return the lease as the gateway names it, "" if there is none."""
        try:
            answer = self._client.post(path, asked)
            if answer.status == status:
                return str(json.loads(answer.octets)["lease"])
            reason = NO_LEASES if answer.status in (404, 405) and path == PLACE else answer.detail()
            self._is_refused = answer.status < 500
        except (LakeError, ValueError, TypeError, KeyError) as error:
            reason = str(error)
        self.note = f"the gateway's retention does not wait for it: {reason}"
        return ""
