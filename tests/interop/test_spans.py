"""Spans of a real gateway at a collector, of messages from STOMP to AMQP."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from proton import Message
from proton.utils import BlockingConnection

from tests.support.process.gateway_process import StartGateway
from tests.support.process.rest import path_of
from tests.support.process.stomp_py import Connect
from tests.support.process.waiting import wait_until

LIMIT_S = 60.0
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SENDER = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SENDER}-01"


class Collector:
    """Takes spans by OTLP over HTTP.  spans: by name.  services: what they said of themselves."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: dict[str, Any] = {}
        self.services: set[str] = set()

    def take(self, octets: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(octets).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.services.add(named["service.name"])
            for scope in resource.scope_spans:
                self.spans.update({span.name: span for span in scope.spans})


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_address[1]}/v1/traces")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_a_trace_goes_on_from_stomp_to_amqp(
    start_gateway: StartGateway, connect: Connect, unique: Callable[[str], str]
) -> None:
    there, back = unique("there"), unique("back")
    with collecting() as collector:
        gateway = start_gateway(f"telemetry: {{traces: true, endpoint: '{collector.url}', service-name: shop}}\n")
        stomp = connect("1.2", gateway)
        stomp.send(f"/queue/{there}", "x", traceparent=PARENT, persistent="true")
        amqp = BlockingConnection(f"amqp://127.0.0.1:{gateway.stomp_port}", timeout=LIMIT_S)
        receiver = amqp.create_receiver(f"queue://{there}")
        assert receiver.receive(timeout=LIMIT_S).properties["traceparent"] == PARENT
        receiver.accept()
        sender = amqp.create_sender(f"queue://{back}")
        sender.send(Message(body="y", properties={"traceparent": PARENT}, durable=True))
        stomp.subscribe(f"/queue/{back}", ack="auto")
        assert stomp.message().headers["traceparent"] == PARENT
        expected = {f"{verb} {name}" for verb in ("send", "deliver") for name in (there, back)}
        wait_until(lambda: expected <= set(collector.spans), "all spans are at the collector", limit_s=LIMIT_S)
        amqp.close()
        assert "penstock_trace_spans_total 4.0" in gateway.get("/metrics")[1]
    assert collector.services == {"shop"}
    for name in (there, back):
        send, deliver = collector.spans[f"send {name}"], collector.spans[f"deliver {name}"]
        assert (send.trace_id.hex(), send.parent_span_id.hex()) == (TRACE, SENDER)
        assert (deliver.trace_id, deliver.parent_span_id) == (send.trace_id, send.span_id)
        assert [link.span_id.hex() for link in deliver.links] == [SENDER]


def test_a_stop_sends_what_waits_and_does_not_need_a_collector(
    start_gateway: StartGateway, connect: Connect, unique: Callable[[str], str]
) -> None:
    name = unique("last")
    with collecting() as collector:
        gateway = start_gateway(f"telemetry: {{traces: true, endpoint: '{collector.url}'}}\n")
        client = connect("1.2", gateway)
        client.send(f"/queue/{name}", "x", traceparent=PARENT, persistent="true")
        client.close()
        asked = urllib.request.Request(
            f"{gateway.http_url}{path_of(name + '.http')}/body", b"y", {"traceparent": PARENT}
        )
        with urllib.request.urlopen(asked, timeout=LIMIT_S) as answer:
            assert answer.status == 201
        assert gateway.terminate() == 0
        assert set(collector.spans) == {f"send {name}", f"send {name}.http"}
        assert {span.trace_id.hex() for span in collector.spans.values()} == {TRACE}
    assert collector.services == {"penstock"}
    gateway.start()  # the collector is gone
    client = connect("1.2", gateway)
    client.send(f"/queue/{name}", "x", traceparent=PARENT, persistent="true")
    client.close()
    assert gateway.terminate() == 0
