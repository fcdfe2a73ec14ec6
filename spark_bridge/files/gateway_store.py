"""The files of a running gateway's store, by ranges over HTTP: ``http://USER:PASSWORD@HOST:PORT``.

The list is that of one moment and brings the checkpoint that was read before it.  What is below that checkpoint stays
as it is, unless the gateway's retention drops or thins a segment; a range of such a file is an error that names it.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import ssl
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import sleep
from typing import ClassVar, Final
from urllib.parse import quote, unquote, urlsplit

from engine.values.errors import RangeGone
from spark_bridge.errors import LakeError, TargetError
from spark_bridge.files.store_ranges import RangedFiles

PASSWORD_VARIABLE: Final = "PENSTOCK_PASSWORD"
ANSWER_LIMIT_S: Final = 60.0
ATTEMPTS: Final = 4
PAUSE_S: Final = 1.0  # before the third attempt, and as much longer before each further one
DETAIL_CHARACTERS: Final = 500
CHECKPOINT: Final = "checkpoint"
RANGE_GIVEN: Final = re.compile(r"bytes ([0-9]+)-[0-9]+/([0-9]+)")
TOO_OLD: Final = "it is no gateway, or one of an older version, which gives no files"


@dataclass(frozen=True, slots=True)
class Listed:
    """The answer to the list.  files: octets and tag by path."""

    checkpoint: bytes
    files: Mapping[str, tuple[int, str]]


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


class GatewayStore:
    """Opened where it is used: a copy sent to another process opens its own connection, with the same login and list.

    Raises: TargetError for a wrong URL; LakeError.
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
        self._listed = self._list()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None}

    def __del__(self) -> None:
        self._close()  # nobody says when a store is read no more

    def sizes(self) -> dict[str, int]:
        """Return the octets of all files by path, as listed."""
        return {path: size for path, (size, _) in self._listed.files.items()} | {
            CHECKPOINT: len(self._listed.checkpoint)
        }

    def told(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()  # its errors say what was asked for

    def open(self, path: str) -> GatewayFile:
        return GatewayFile(self, path)

    def read_at(self, path: str, size: int, position: int) -> bytes:
        """Return octets of a file.  Raises: RangeGone if retention has dropped or changed it; LakeError."""
        if path == CHECKPOINT:
            return self._listed.checkpoint[position : position + size]
        found = b""
        while len(found) < size:
            part = self._part(path, position + len(found), position + size - 1)
            found = part if not found else found + part
        return found

    def _part(self, path: str, first: int, last: int) -> bytes:
        answer = self._ask(f"/api/store/file?path={quote(path, safe='')}", f"bytes={first}-{last}")
        if answer.status in (404, 416):
            raise self._gone(path, "has dropped it")
        given = RANGE_GIVEN.fullmatch(answer.headers.get("content-range", ""))
        if answer.status != 206 or given is None or int(given[1]) != first or not answer.octets:
            raise self._failed(f"read {path}", answer)
        size, tag = self._listed.files[path]
        if answer.headers.get("etag") != f'W/"{tag}"' or int(given[2]) < size:
            raise self._gone(path, "has removed messages from it")
        return answer.octets

    def _gone(self, path: str, what: str) -> RangeGone:
        name = path.rpartition("/")[2].partition(".")[0]
        offsets = f"log offsets from {int(name)} on" if path.startswith("commitlog/") else "parts of the log"
        return RangeGone(
            f"{offsets} are gone: since {self.title} listed {path}, its retention {what}; a new read takes what is left"
        )

    def _list(self) -> Listed:
        answer = self._ask("/api/store/files", "")
        if answer.status != 200:
            raise self._failed("list the files", answer)
        try:
            told = json.loads(answer.octets)
            files = {str(one["path"]): (int(one["size"]), str(one["tag"])) for one in told["files"]}
            return Listed(base64.b64decode(told["checkpoint"], validate=True), files)
        except (ValueError, TypeError, KeyError):
            raise LakeError(f"cannot list the files of {self.title}: {TOO_OLD}") from None

    def _failed(self, what: str, answer: Answer) -> LakeError:
        reason = TOO_OLD if answer.status == 404 else answer.detail()
        return LakeError(f"cannot {what} of {self.title}: it answers {answer.status}: {reason}")

    def _ask(self, path: str, octets: str) -> Answer:
        """Ask, a few times if the answer is 503 or lost.  octets: for the header Range.  Raises: LakeError."""
        headers = {"Range": octets} if octets else {}
        if self._login[0]:
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(self._login).encode()).decode("ascii")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = self._asked(path, headers)
                if answer.status != 503 or attempt == ATTEMPTS:
                    return answer
            except (OSError, http.client.HTTPException) as error:
                self._close()
                if attempt == ATTEMPTS or isinstance(error, ssl.SSLCertVerificationError):
                    raise LakeError(f"cannot reach {self.title}: {_reason(error)}") from None
            sleep(self._pause_s * (attempt - 1))  # at once after the first: a gateway closes idle connections
        raise AssertionError("the last attempt returns or raises")

    def _asked(self, path: str, headers: Mapping[str, str]) -> Answer:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
            self._connection = kind(self._host, self._port, timeout=ANSWER_LIMIT_S)
        self._connection.request("GET", path, headers=dict(headers))
        with self._connection.getresponse() as response:
            given = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, given, response.read())

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return str(error) or type(error).__name__


class GatewayFile:
    def __init__(self, store: GatewayStore, path: str) -> None:
        self._store = store
        self._path = path

    def read_at(self, size: int, position: int) -> bytes:
        return self._store.read_at(self._path, size, position)


class GatewayRanges(RangedFiles):
    """The gateway has the store open, so its checkpoint says how far the log may be read."""

    is_live: ClassVar[bool] = True
