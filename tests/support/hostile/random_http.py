"""HTTP requests of any kind, whole, half and broken, drawn from a seed."""

from __future__ import annotations

import base64
import random
import re
from collections import deque
from typing import Final

from tests.support.hostile.hostile_config import HOSTILE, KINDS
from tests.support.hostile.random_stomp import broken

# {n}: a number, {name}: of a queue, {id}: of a message, {lease}, {cursor}, {run}: of an earlier answer.
GETS: Final = (
    *("/healthz", "/metrics", "/api/openapi.json", "/api/stat", "/api/overview", "/nowhere", "/console/"),
    *("/api/connections", "/api/addresses", "/api/history", "/api/subscriptions?search={n}&limit={n}"),
    *("/api/connections/{n}", "/api/why/consumer/{n}", "/api/why/producer/{n}", "/api/why/message/{id}"),
    *("/api/destinations?search={n}&limit=500&sort=-depth", "/api/consumers?destination=queue://{name}"),
    *("/api/schedule?limit={n}", "/api/schedule?destination={name}", "/api/explain/destination/{name}"),
    *("/api/explain/consumer/{n}", "/api/explain/destination/{name}?connection={n}", "/api/retry/{n}"),
    *("/api/store/query?destination={name}", "/api/store/query?key={n}"),
    *("/api/store/du", "/api/store/readers", "/api/store/du?why=1"),
    *("/api/destinations/{name}/messages?limit={n}", "/api/destinations/{name}/messages?filter=n+>&body=json"),
    *("/api/destinations/{name}/messages?limit=1", "/api/cursors/{cursor}", "/api/cursors/{cursor}?limit=3"),
    *("/api/destinations/{name}/messages/{id}", "/api/messages/{id}"),
    "/api/destinations/topic%3A%2F%2F{name}/messages",
    *("/api/store/dump?from={n}", "/api/store/dump", "/api/store/verify/{n}", "/api/explain/destination/%ff%00>"),
    *("/api/message/{name}?type=queue&readTimeout={n}", "/api/jolokia"),
    "/api/jolokia/read/org.apache.activemq:type=Broker,x={n}",
    "/api/jolokia/read/org.apache.activemq:type=Broker,destinationType=Queue,destinationName=*/QueueSize",
    "/api/jolokia/read/org.apache.activemq:type=Broker,destinationType=Queue,destinationName={name}",
)
_SELECTED: Final = "n+%3D+{n}+OR+key+LIKE+%27%25{n}%25%27"
POSTS: Final = (
    ("/api/retry", ('{"queue":"ActiveMQ.DLQ","rate":100,"limit":50}', '{"queue":"ActiveMQ.DLQ.Queue.dead.1"}', "{}")),
    ("/api/schedule/cancel", ('{"ids":["{id}"]}', '{"destination":"{name}"}', '{"ids":{n}}')),
    ("/api/purge", ('{"destination":"{name}"}', '{"destination":"{name}","filter":"n = {n}"}', "{}")),
    ("/api/pause", ('{"destination":"{name}"}', '{"destination":"topic://{name}"}', "{}")),
    ("/api/resume", ('{"destination":"{name}"}', '{"destination":"{name}"}', '{"destination":{n}}')),
    ("/api/delete", ('{"destination":"{name}"}', '{"destination":"topic://{name}"}', '{"destination":{n}}')),
    ("/api/subscriptions/delete", ('{"name":"{name}"}', '{"client_id":"{id}","name":"{name}"}', '{"name":{n}}')),
    ("/api/store/verify", ("{}", "", "[]")),
    (
        "/api/destinations/{name}/messages",
        (
            '{"body":"{n}"}',
            '{"body_json":[{n}],"persistent":false,"priority":9,"group":"{n}"}',
            '{"properties":{"a":[]}}',
            '{"properties":{"n":{n},"key":"k{n}","AMQ_SCHEDULED_DELAY":"{n}"},"ttl_ms":{n}}',
            '{"body_base64":"AP8=","reply_to":"topic://{name}","correlation_id":"{id}"}',
        ),
    ),
    ("/api/destinations/topic%3A%2F%2F{name}/messages", ('{"body":"{n}"}', '{"persistent":false}')),
    ("/api/message/{name}?type=queue&color={n}", ("body={n}", "{n}")),
    ("/api/destinations/{name}/messages/{id}/move", ('{"to":"{name}"}', '{"to":"a.>"}')),
    ("/api/destinations/{name}/messages/{id}/copy", ('{"to":"{name}"}', '{"to":"topic://{name}"}', "{}")),
    ("/api/destinations/{name}/body?priority=9", ("{n}", "", "x" * 70_000)),
    ("/api/destinations/{name}/take?count=3&lease_ms=1000", ("",)),
    ("/api/destinations/{name}/take?count=100&lease_ms=2000&wait_ms=50", ("",)),
    ("/api/destinations/{name}/take?wait_ms={n}&ends_with_connection=true&filter=" + _SELECTED, ("",)),
    (
        "/api/settle",
        (
            *('{"leases":["{lease}"]}', '{"leases":["{lease}","{lease}"],"outcome":"release"}'),
            *('{"leases":["{lease}"],"outcome":"fail"}', '{"leases":["{lease}"],"outcome":"dead-letter"}'),
            *('{"leases":[],"outcome":"fail"}', '{"leases":{n}}'),
        ),
    ),
    ("/api/store/backup", ('{"directory":""}', '{"directory":"\\u0000"}', '{"directory":7}')),
)
DELETES: Final = ("/api/destinations/{name}/messages/{id}", "/api/message/{name}?type=queue&readTimeout=0")
_RUNS: Final = ("/api/retry/{run}", "/api/purge/{run}", "/api/connections/{n}")
MOST_REMEMBERED: Final = 50
TAIL_BYTES: Final = 200  # of the last answer, in which a name may have begun


class RandomHttp:
    """One connection of requests, which may be pipelined; what answers name, later requests name again."""

    def __init__(self, draw: random.Random, kinds: tuple[str, ...] = KINDS) -> None:
        self._draw = draw
        self._kinds = kinds
        self._tail = b""
        self._known = {
            "{id}": (re.compile(rb'"id": "(ID:[^"]{1,100})"'), deque(["ID:x-1"], MOST_REMEMBERED)),
            "{lease}": (re.compile(rb'"lease": "(\w{32})"'), deque(["none"], MOST_REMEMBERED)),
            "{cursor}": (re.compile(rb'"next": "(\w{32})"'), deque(["none"], MOST_REMEMBERED)),
            "{run}": (re.compile(rb'"(?:retry|purge)": (\d+)'), deque(["1"], MOST_REMEMBERED)),
        }
        self.is_refused = False
        self.bodies: list[bytes] = []

    def opening(self) -> bytes:
        return self.operation()

    def operation(self) -> bytes:
        """Return one request; some are malformed."""
        draw = self._draw
        password = HOSTILE[1] if draw.randrange(10) else "wrong"
        credentials = base64.b64encode(f"{HOSTILE[0]}:{password}".encode()).decode()
        headers = "Host: localhost\r\n" if draw.randrange(20) else "Host: example.org\r\n"
        headers += f"Authorization: Basic {credentials}\r\n" if draw.randrange(10) else "Authorization: Basic /w==\r\n"
        body = ""
        kind = draw.randrange(10)
        if kind < 4:
            method, path = draw.choice(("GET", "GET", "GET", "HEAD")), draw.choice(GETS)
        elif kind == 4:
            method, path = "DELETE", draw.choice((*DELETES, *_RUNS))
        else:
            method = "POST"
            path, bodies = draw.choice(POSTS)
            body = draw.choice(bodies) if draw.randrange(20) else "[" * 5_000
            headers += "Content-Type: application/json\r\n"
        path, body = self._filled(path), self._filled(body)
        if draw.randrange(6):
            headers += f"Content-Length: {len(body)}\r\n"
        else:
            headers += "Transfer-Encoding: chunked\r\n"
            body = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n" if body else "0\r\n\r\n"
        octets = f"{method} {path} HTTP/1.1\r\n{headers}\r\n{body}".encode()
        return octets if draw.randrange(20) else broken(draw, octets)

    def receive_data(self, octets: bytes) -> bytes:
        """Remember what the answers name."""
        octets = self._tail + octets
        self.bodies.append(octets)
        self._tail = octets[-TAIL_BYTES:]
        for pattern, known in self._known.values():
            known.extend(found.decode() for found in pattern.findall(octets))
        return b""

    def goodbye(self) -> bytes:
        return b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    def _filled(self, text: str) -> str:
        draw = self._draw
        for mark, (_, known) in self._known.items():
            while mark in text:
                text = text.replace(mark, draw.choice(known), 1)
        return text.replace("{n}", str(draw.randrange(300))).replace("{name}", f"{draw.choice(self._kinds)}.1")
