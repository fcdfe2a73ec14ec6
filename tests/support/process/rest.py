"""A client of the HTTP API of a real gateway, on one connection that stays open."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from tests.support.process.gateway_process import HTTP_LIMIT_S, GatewayProcess

Answer = tuple[int, dict[str, Any]]


class RestClient:
    """login: and password, ("", "") for none."""

    def __init__(self, gateway: GatewayProcess, login: tuple[str, str] = ("", "")) -> None:
        address = urlsplit(gateway.http_url)
        self._connection: Final = http.client.HTTPConnection(str(address.hostname), address.port, timeout=HTTP_LIMIT_S)
        self._headers: dict[str, str] = {}
        if login[0]:
            self._headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()

    def ask(
        self, method: str, path: str, sent: Any = None, raw: bytes | None = None, kind: str = "", **query: Any
    ) -> Answer:
        """Return status and JSON of the answer.  sent: a body in JSON; raw, kind: a body and its Content-Type."""
        octets = raw if sent is None else json.dumps(sent).encode()
        headers = {**self._headers, **({"Content-Type": kind} if kind else {})}
        words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
        target = f"{path}?{urlencode(words)}" if words else path
        self._connection.request(method, target, octets, headers)
        response = self._connection.getresponse()
        document: dict[str, Any] = json.loads(response.read())
        return response.status, document

    def send(self, destination: str, body: str = "", **members: Any) -> Answer:
        return self.ask("POST", f"{path_of(destination)}/messages", {"body": body, **members})

    def take(self, destination: str, **query: Any) -> list[dict[str, Any]]:
        status, found = self.ask("POST", f"{path_of(destination)}/take", **query)
        assert status == 200, found
        messages: list[dict[str, Any]] = found["messages"]
        return messages

    def settle(self, messages: list[dict[str, Any]], outcome: str = "acknowledge") -> dict[str, Any]:
        leases = [one["lease"] for one in messages]
        status, found = self.ask("POST", "/api/settle", {"leases": leases, "outcome": outcome})
        assert status == 200, found
        return found

    def browse(self, destination: str, **query: Any) -> dict[str, Any]:
        status, found = self.ask("GET", f"{path_of(destination)}/messages", **query)
        assert status == 200, found
        return found

    def close(self) -> None:
        self._connection.close()


def path_of(destination: str) -> str:
    return f"/api/destinations/{quote(destination, safe='')}"
