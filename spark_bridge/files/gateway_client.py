"""Requests to a running gateway over HTTP: ``http://USER:PASSWORD@HOST:PORT``."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from time import sleep
from typing import Final
from urllib.parse import unquote, urlsplit

from spark_bridge.errors import LakeError, TargetError

PASSWORD_VARIABLE: Final = "PENSTOCK_PASSWORD"
ANSWER_LIMIT_S: Final = 60.0
ATTEMPTS: Final = 4
PATIENT_ATTEMPTS: Final = 9  # of a gateway that has answered before: about as long as a restart takes
PAUSE_S: Final = 1.0  # before the third attempt, and twice as long before each further one
PAUSE_FACTOR_MAX: Final = 8
DETAIL_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    octets: bytes

    def detail(self) -> str:
        """Return what a problem document says, of another server's answer the beginning."""
        try:
            return str(json.loads(self.octets)["detail"])
        except (ValueError, TypeError, KeyError):
            return self.octets.decode("utf-8", "replace").strip()[:DETAIL_CHARACTERS]


class GatewayClient:
    """Opened where it is used: a copy sent to another process opens its own connection, with the same login.

    A gateway that has answered once is waited for, as long as a restart may take.
    Raises: TargetError for a wrong URL.
    """

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ, pause_s: float = PAUSE_S) -> None:
        self._connection: http.client.HTTPConnection | None = None
        parts = urlsplit(url)
        user, _, rest = parts.netloc.rpartition("@")
        self.title = f"{parts.scheme}://{rest}"
        self._is_tls = parts.scheme == "https"
        try:
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            self._host, self._port = "", None
        if not self._host or parts.path.strip("/") or parts.query or parts.fragment:
            raise TargetError(f"{self.title}{parts.path} is no gateway; allowed is {parts.scheme}://USER@HOST:PORT")
        name, colon, password = user.partition(":")
        given = unquote(password) if colon else environment.get(PASSWORD_VARIABLE, "")
        self._login = (unquote(name), given)
        self._pause_s = pause_s
        self._has_answered = False

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None}

    def __del__(self) -> None:
        self.close()  # nobody says when a store is read no more

    def another(self) -> GatewayClient:
        """Return a client with a connection of its own, for another thread."""
        made = GatewayClient.__new__(GatewayClient)
        made.__dict__.update(self.__getstate__())
        return made

    def get(self, path: str, octets: str = "") -> Answer:
        """octets: for the header Range, "" for none.  Raises: LakeError."""
        return self._ask("GET", path, {"Range": octets} if octets else {})

    def post(self, path: str, members: Mapping[str, object]) -> Answer:
        """members: of the JSON.  Raises: LakeError."""
        return self._ask("POST", path, {"Content-Type": "application/json"}, json.dumps(members).encode())

    def delete(self, path: str) -> Answer:
        """Raises: LakeError."""
        return self._ask("DELETE", path, {}, attempts=ATTEMPTS)  # the end of something, for which nobody waits long

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(
        self, method: str, path: str, more: Mapping[str, str], body: bytes | None = None, attempts: int = 0
    ) -> Answer:
        """Ask, again and again if the answer is 503 or lost.  Raises: LakeError."""
        attempts = attempts or (PATIENT_ATTEMPTS if self._has_answered else ATTEMPTS)
        headers = dict(more)
        if self._login[0]:
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(self._login).encode()).decode("ascii")
        for attempt in range(1, attempts + 1):
            try:
                answer = self._asked(method, path, headers, body)
                self._has_answered = self._has_answered or answer.status < 500
                if answer.status != 503 or attempt == attempts:
                    return answer
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if attempt == attempts or isinstance(error, ssl.SSLCertVerificationError):
                    raise LakeError(f"cannot reach {self.title}: {_reason(error)} (attempt {attempt})") from None
            self.pause(attempt)
        raise AssertionError("the last attempt returns or raises")

    def pause(self, attempt: int) -> None:
        """Sleep after an attempt that will be followed by another.  attempt: its number, from 1 on."""
        # Not after the first: a gateway closes idle connections.
        sleep(self._pause_s * min(PAUSE_FACTOR_MAX, 2 ** (attempt - 2)) if attempt > 1 else 0)

    def _asked(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
            self._connection = kind(self._host, self._port, timeout=ANSWER_LIMIT_S)
        self._connection.request(method, path, body, headers=dict(headers))
        with self._connection.getresponse() as response:
            given = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, given, response.read())


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return str(error) or type(error).__name__
