"""Errors as problem details (RFC 9457): the one place that makes them, for every path and every refusal."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from engine.values.errors import EngineError, PenstockError, StoreError, UserGone

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
SEEN_MAX_CHARACTERS: Final = 2_000  # of a detail: it repeats what the client wrote

# Words for statuses whose errors have no condition of their own.
_CONDITIONS: Final = {
    400: "invalid-request",
    401: "login-refused",
    403: "access-denied",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    409: "conflict",
    413: "body-too-large",
    416: "range-not-satisfiable",
    417: "invalid-request",
    429: "limit-reached",
    500: "internal-error",
    503: "unavailable",
    507: "store-error",
}
# By condition of an engine's error; all others are 400, or 507 for those of the store.
_STATUSES: Final = {
    "access-denied": 403,
    "address-full": 507,
    "blocked": 503,
    "client-id-in-use": 409,
    "connection-forced": 503,
    "connection-memory": 503,
    "destination-in-use": 409,
    "duplicate-id": 409,
    "destination-locked": 409,
    "limit-reached": 429,
    "range-gone": 404,
    "subscription-in-use": 409,
    "unknown-message": 404,
    "unknown-reader": 404,
    "unknown-subscription": 404,
}
DISK_REFUSES: Final = 507  # Insufficient Storage: the change cannot be stored
# Of every answer.  The server says who it is without the versions of what it is made of.
HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Server": "Penstock"}
DEFECT: Final = "a defect of the gateway: its log has the details"


class Problem(Exception):
    """A request that cannot be met.

    detail: what was seen and what is allowed.  condition: a stable word for programs, "" for that of the status.
    headers: of the answer.  before: log offset at which a search that has found nothing goes on.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        condition: str = "",
        headers: Mapping[str, str] | None = None,
        before: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.condition = condition or _CONDITIONS.get(status, "invalid-request")
        self.headers = dict(headers or {})
        self.before = before

    @staticmethod
    def unwritten(what: str, error: OSError) -> Problem:
        """Return that of something that the disk does not take."""
        return Problem(DISK_REFUSES, f"{what} cannot be written: {error.strerror}")

    def answer(self) -> web.Response:
        document = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail[:SEEN_MAX_CHARACTERS],
            "condition": self.condition,
            **({} if self.before is None else {"before": self.before}),
        }
        # In ASCII: a name of a client may hold half of a surrogate pair.
        return web.Response(
            status=self.status,
            text=json.dumps(document),
            content_type=CONTENT_TYPE,
            headers={**HEADERS, **self.headers},
        )

    def octets(self) -> bytes:
        """Return the answer as it is sent where aiohttp answers no request; the connection closes after it."""
        answer = self.answer()
        body = answer.body
        assert isinstance(body, bytes), "the answer is a text"
        answer.headers.update({"Content-Length": str(len(body)), "Connection": "close"})
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body


class UnclearLength(Problem):
    """A request of which others may not see the same end: the connection closes, so nothing is taken for the next."""

    def answer(self) -> web.Response:
        answer = super().answer()
        answer.force_close()
        return answer


@web.middleware
async def with_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error with a problem document, and give every answer the headers that it needs."""
    try:
        response = await handler(request)
    except Problem as problem:
        return problem.answer()
    except web.HTTPException as error:
        if error.status >= 400:
            return http_problem(request, error).answer()
        error.headers.update(HEADERS)
        raise
    except web.RequestPayloadError as error:
        _forget_frames(request)
        return Problem(400, f"the body cannot be read: {' '.join(str(error).split())[:200]}").answer()
    except ConnectionError:
        _forget_frames(request)
        return Problem(400, "the connection was lost within the request").answer()  # nobody reads it
    except Exception as error:
        refused = refusal(error)
        if refused is not None:
            return refused.answer()
        asked = f"{request.method} {request.rel_url.raw_path[:200]}"
        request.protocol.logger.exception("%s: a defect of the gateway, answered 500", asked)
        return Problem(500, DEFECT).answer()
    if not response.prepared:
        response.headers.update(HEADERS)
    return response


def _forget_frames(request: web.Request) -> None:
    """Let reference counts free a body that was cut off: it keeps its exception, whose frames keep the body."""
    error: BaseException | None = request.content.exception()
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


def refusal(error: Exception) -> Problem | None:
    """Return the problem for a request that the engine or the store refuses, or whose object is not there."""
    if isinstance(error, PenstockError):
        otherwise = DISK_REFUSES if isinstance(error, StoreError) else 400
        is_ours = not isinstance(error, EngineError | StoreError)
        status = 500 if is_ours else _STATUSES.get(error.condition, otherwise)
        if isinstance(error, UserGone):
            status = 403  # the next request is asked for a login
        headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
        return Problem(status, str(error), error.condition, headers)
    if isinstance(error, LookupError) and not isinstance(error, KeyError | IndexError):  # those are defects
        return Problem(404, str(error))
    return None


def http_problem(request: web.BaseRequest, error: web.HTTPException) -> Problem:
    """Return the problem for an error that aiohttp itself has raised."""
    asked = f"{request.method} {request.path[:200]}"
    if error.status == 404:
        return Problem(404, f"{asked} is not a path of this gateway")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return Problem(405, f"method is {asked}; allowed is {allowed}", headers={"Allow": allowed})
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return Problem(413, f"the body of {asked} is too large: {(error.text or '').lower()}")
    return Problem(error.status, f"{asked}: {error.text or error.reason}")
