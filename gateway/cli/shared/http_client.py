"""Requests to the gateway's HTTP listener, with plain words for each failure."""

from __future__ import annotations

import argparse
import base64
import json
from time import sleep
from typing import Any, Final, NoReturn

from engine.values.errors import StoreError
from gateway.cli.shared.parsers import CommandError, add_user_argument, password_of, without_login
from gateway.process import exit_codes

DEFAULT_URL: Final = "http://127.0.0.1:8161"
ANSWER_TIME_S: Final = 10.0
STORE_TIME_S: Final = 24 * 3_600.0  # a copy of a store, or a question that reads much of it, behind others
BAD_REQUEST: Final = 400
REFUSALS: Final = (403, 404, 409, 429, 507)
POLL_INTERVAL_S: Final = 0.2
PROBLEM_BYTES_MAX: Final = 64 * 1024
TEXT_MAX_CHARACTERS: Final = 2_000
NO_GATEWAY: Final = "this server does not answer as a Penstock gateway of this version"


class HttpError(CommandError):
    """No answer, or not one of the gateway.  status: that of HTTP, 0 without an answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        refused = exit_codes.FAILED if status in REFUSALS else exit_codes.UNREACHABLE
        super().__init__(text, exit_codes.USAGE if status == BAD_REQUEST else refused)


class _Answer(dict[str, Any]):
    """An object of an answer.  What a command asks for and a server does not tell shows that it is no gateway."""

    def __missing__(self, name: str) -> NoReturn:
        raise HttpError(f"{NO_GATEWAY}: its answer has no {name!r}")


def add_http_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--http", metavar="URL", default=DEFAULT_URL, help="HTTP listener (default: %(default)s)")
    add_user_argument(parser)


def finish(arguments: argparse.Namespace, kind: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Start a run that takes many turns, and return its last status; Ctrl-C stops it.  Raises: HttpError."""
    authorization = authorization_of(arguments.user)
    status = fetch(arguments.http, f"/api/{kind}", authorization, "POST", asked)
    path = f"/api/{kind}/{status[kind]}"
    try:
        return _polled(arguments.http, path, authorization, status)
    except KeyboardInterrupt:
        return fetch(arguments.http, path, authorization, "DELETE")


def _polled(url: str, path: str, authorization: str | None, status: dict[str, Any]) -> dict[str, Any]:
    """Return the first status at ``path`` that says it is done."""
    while not status["done"]:
        sleep(POLL_INTERVAL_S)
        status = fetch(url, path, authorization)
    return status


def fetch(
    url: str,
    path: str,
    authorization: str | None,
    method: str = "GET",
    body: dict[str, Any] | None = None,
    time_s: float = ANSWER_TIME_S,
    has: str = "",
) -> dict[str, Any]:
    """Return the JSON object of the answer, which has ``time_s`` to begin.

    has: a member of each such answer of a gateway, for commands that may print it without a look into it.
    Raises: HttpError; CommandError for a ``url`` that is none.
    """
    import http.client
    import ssl
    import urllib.error
    import urllib.request

    base = url.replace("tcp://", "http://", 1).rstrip("/")
    if not base.startswith(("http://", "https://")) or "@" in base:
        allowed = "http://HOST:PORT or https://HOST:PORT, with --user NAME for a login"
        raise CommandError(f"--http is {without_login(url)!r}, allowed is {allowed}")
    # Without the proxies of the environment: connect to the gateway directly.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{base}{path}", data, method=method)
        if authorization is not None:
            request.add_header("Authorization", authorization)
        with opener.open(request, timeout=time_s) as response:
            document = json.load(response, object_hook=_Answer)
    except urllib.error.HTTPError as error:
        with error:
            text = _problem_in(error.read(PROBLEM_BYTES_MAX))
        raise HttpError(f"{base} answers {error.code}: {text}", error.code) from None
    except TimeoutError:  # that of the connection has urllib's error around it
        text = f"{base} has not answered within {time_s:g} s, and may still do what it was asked for"
        raise HttpError(text) from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted: {reason.verify_message}"
        elif isinstance(reason, OSError):
            reason = reason.strerror or reason
        raise HttpError(f"cannot reach {base}: {reason}") from None
    except ValueError:
        raise HttpError(f"{base} does not answer as a Penstock gateway") from None
    if not isinstance(document, dict) or (has and has not in document):
        raise HttpError(f"{base} does not answer as a Penstock gateway")
    return document


def fetch_long(
    arguments: argparse.Namespace, path: str, method: str = "GET", body: dict[str, Any] | None = None, has: str = ""
) -> dict[str, Any]:
    """Do the same for a command whose answer takes as long as the store is large."""
    return fetch(arguments.http, path, authorization_of(arguments.user), method, body, STORE_TIME_S, has)


def _problem_in(octets: bytes) -> str:
    """Return the detail of a problem document; of another server's answer, its beginning."""
    try:
        document = json.loads(octets)
        return str(document["detail"])
    except (ValueError, TypeError, KeyError):
        return octets.decode("utf-8", "replace").strip()[:TEXT_MAX_CHARACTERS]


def authorization_of(user: str | None) -> str | None:
    """Return the header of HTTP Basic for ``--user``.  Raises: CommandError."""
    passcode = password_of(user)
    if passcode is None:
        return None
    return "Basic " + base64.b64encode(f"{user}:{passcode}".encode()).decode("ascii")


def run_task(arguments: argparse.Namespace, what: str) -> dict[str, Any]:
    """Begin a long task of the running gateway, ask until it is done, and return its result.

    Raises: CommandError; StoreError that says why it failed.
    """
    authorization = authorization_of(arguments.user)
    status = fetch(arguments.http, f"/api/store/{what}", authorization, "POST", {})
    status = _polled(arguments.http, f"/api/store/{what}/{status['task']}", authorization, status)
    if status["failure"]:
        raise StoreError(status["failure"])
    return status
