"""HTTP requests of any kind, whole, half and broken, drawn from a seed."""

from __future__ import annotations

import base64
import random
from typing import Final

from tests.support.hostile.hostile_config import HOSTILE, KINDS
from tests.support.hostile.random_stomp import broken

GETS: Final = (
    *(
        "/healthz",
        "/metrics",
        "/api/stat",
        "/api/why/consumer/{n}",
        "/api/why/producer/{n}",
        "/api/why/message/ID:x-{n}",
    ),
    *("/api/schedule?limit={n}", "/api/schedule?destination={name}", "/api/explain/destination/{name}"),
    *("/api/explain/consumer/{n}", "/api/explain/destination/{name}?connection={n}", "/api/retry/{n}", "/nowhere"),
    *("/api/store/query?destination={name}", "/api/store/query?key={n}", "/api/store/du", "/api/store/du?why=1"),
    *("/api/store/dump?from={n}", "/api/store/dump", "/api/store/verify/{n}", "/api/explain/destination/%ff%00>"),
)
POSTS: Final = (
    ("/api/retry", ('{"queue":"ActiveMQ.DLQ","rate":100,"limit":50}', '{"queue":"ActiveMQ.DLQ.Queue.dead.1"}', "{}")),
    ("/api/schedule/cancel", ('{"ids":["ID:x-{n}"]}', '{"destination":"{name}"}', '{"ids":{n}}')),
    ("/api/store/verify", ("{}", "", "[]")),
    ("/api/store/backup", ('{"directory":""}', '{"directory":"\\u0000"}', '{"directory":7}')),
)


def request(draw: random.Random) -> bytes:
    """Return one request; some are malformed."""
    number, name = str(draw.randrange(300)), f"{draw.choice(KINDS)}.1"
    password = HOSTILE[1] if draw.randrange(10) else "wrong"
    credentials = base64.b64encode(f"{HOSTILE[0]}:{password}".encode()).decode()
    headers = "Host: localhost\r\n" if draw.randrange(20) else "Host: example.org\r\n"
    headers += f"Authorization: Basic {credentials}\r\n" if draw.randrange(10) else "Authorization: Basic /w==\r\n"
    body = ""
    if draw.randrange(5):
        method, path = draw.choice(("GET", "GET", "GET", "HEAD", "DELETE")), draw.choice(GETS)
    else:
        method = "POST"
        path, bodies = draw.choice(POSTS)
        body = draw.choice((*bodies, "[" * 5_000))
        headers += "Content-Type: application/json\r\n"
    path, body = (text.replace("{n}", number).replace("{name}", name) for text in (path, body))
    octets = f"{method} {path} HTTP/1.1\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    return octets if draw.randrange(8) else broken(draw, octets)
