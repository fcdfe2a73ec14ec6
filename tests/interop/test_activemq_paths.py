"""Paths of ActiveMQ over HTTP, asked as its users' scripts and monitoring plug-ins ask them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import quote

from gateway.answers.message_document import WHOLE_BYTES_MAX
from protocols.stomp.codec.frames import SEND
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import HTTP_LIMIT_S, GatewayProcess
from tests.support.process.stomp_py import Client
from tests.support.process.waiting import wait_until

BROKER = "org.apache.activemq:type=Broker,brokerName=localhost"


def ask(
    gateway: GatewayProcess, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(gateway.http_url + path, body, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=HTTP_LIMIT_S) as response:
            return response.status, response.read().decode(), dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


def read(gateway: GatewayProcess, mbean: str, attribute: str = "") -> dict[str, Any]:
    more = f"/{attribute}" if attribute else ""
    found: dict[str, Any] = gateway.get_json(f"/api/jolokia/read/{quote(mbean, safe=':=,*')}{more}")
    return found


def test_the_servlet_sends_and_receives(shared_gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    name = unique("servlet")
    path = f"/api/message/{name}?type=queue"
    form = "application/x-www-form-urlencoded"
    status, text, headers = ask(
        shared_gateway, "POST", f"{path}&JMSPriority=9&color=red", b"body=a+b%26c", Content_Type=form
    )
    assert (status, text, headers["messageID"].startswith("ID:")) == (200, "Message sent", True)
    assert ask(shared_gateway, "POST", path, "<script>ä".encode(), Content_Type="text/plain")[0] == 200
    assert ask(shared_gateway, "POST", f"{path}&body=third")[0] == 200

    client = Client(shared_gateway, "1.2").connect()
    client.subscribe(f"/queue/{name}", "client-individual", selector="color = 'red'")
    message = client.message()
    assert (message.body, message.headers["priority"]) == ("a b&c", "9")
    client.ack(message)
    client.close()

    status, text, headers = ask(shared_gateway, "GET", f"{path}&readTimeout=10000")
    assert (status, text, headers["Content-Type"]) == (200, "<script>ä", "text/plain; charset=utf-8")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask(shared_gateway, "DELETE", f"{path}&readTimeout=10000")[:2] == (200, "third")
    assert ask(shared_gateway, "GET", f"{path}&readTimeout=0")[:2] == (204, "")


def test_a_foreign_page_takes_no_message(shared_gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    path = f"/api/message/{unique('foreign')}?type=queue"
    ask(shared_gateway, "POST", path, b"x")
    assert ask(shared_gateway, "GET", f"{path}&readTimeout=1000", Sec_Fetch_Site="cross-site")[0] == 403
    # Browsers send that header only to trustworthy addresses: https, or this machine.
    browser = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
    status, text, _ = ask(shared_gateway, "GET", f"{path}&readTimeout=1000", User_Agent=browser)
    assert (status, "POST /api/destinations/DEST/take" in text) == (403, True), text
    assert ask(shared_gateway, "HEAD", f"{path}&readTimeout=1000")[0] == 405
    found = ask(shared_gateway, "GET", f"{path}&readTimeout=10000", Sec_Fetch_Site="none", User_Agent=browser)
    assert found[:2] == (200, "x")


def test_the_servlet_leaves_what_is_too_large_for_http(
    shared_gateway: GatewayProcess, unique: Callable[[str], str]
) -> None:
    name = unique("large")
    with closing(raw_stomp.client(shared_gateway)) as client:
        client.send(SEND, [("destination", f"/queue/{name}"), ("receipt", "sent")], b"x" * (WHOLE_BYTES_MAX + 1))
        client.next_frame()
    path = f"/api/message/{name}?type=queue&readTimeout=10000"
    status, body, _ = ask(shared_gateway, "GET", path)
    assert (status, f"a body of {WHOLE_BYTES_MAX + 1} octets" in body) == (409, True), body
    page = shared_gateway.get_json(f"/api/destinations/{name}/messages")
    assert [(one["whole"], one["body_bytes"]) for one in page["messages"]] == [(False, WHOLE_BYTES_MAX + 1)]


def test_what_the_servlet_cannot_do(shared_gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    for method, path, text in (
        ("GET", f"/api/message/{unique('x')}?readTimeout=0", "destination is a topic"),
        ("POST", "/api/message/a.%3E?type=queue&body=x", "no wildcard"),
        ("POST", "/api/message/x?type=heap&body=x", "one of queue, topic"),
        ("GET", "/api/message/x?type=queue&readTimeout=never", "readTimeout is 'never'"),
        ("POST", "/api/message/x?type=queue&body=x&receipt=1", "belongs to the gateway"),
    ):
        status, body, _ = ask(shared_gateway, method, path)
        assert (status, text in body) == (400, True), body


def test_jolokia_reads(shared_gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    name = unique("jolokia")
    for _ in range(3):
        ask(shared_gateway, "POST", f"/api/message/{name}?type=queue&body=x")
    mbean = f"{BROKER},destinationType=Queue,destinationName={name}"
    wait_until(lambda: read(shared_gateway, mbean, "QueueSize").get("value") == 3, "a sample with the messages")
    found = read(shared_gateway, mbean)
    assert found["status"] == 200
    assert (found["value"]["Name"], found["value"]["EnqueueCount"], found["value"]["ConsumerCount"]) == (name, 3, 0)
    two = read(shared_gateway, mbean, "QueueSize,InFlightCount")
    assert two["value"] == {"QueueSize": 3, "InFlightCount": 0}
    assert found["value"]["Paused"] is False
    every = read(shared_gateway, f"{BROKER},destinationType=Queue,destinationName=*", "QueueSize")["value"]
    assert every[
        f"org.apache.activemq:brokerName=localhost,destinationName={name},destinationType=Queue,type=Broker"
    ] == {"QueueSize": 3}
    wait_until(lambda: "StorePercentUsage" in read(shared_gateway, BROKER)["value"], "a look at the disk")
    broker = read(shared_gateway, BROKER)["value"]
    assert broker["TotalMessageCount"] >= 3
    for share in ("MemoryPercentUsage", "StorePercentUsage", "TempPercentUsage"):
        assert 0 <= broker[share] <= 100, share
    assert shared_gateway.get_json("/api/jolokia")["status"] == 200
    assert shared_gateway.get_json(f"/api/jolokia/read/{BROKER}/TotalConsumerCount?ignoreErrors=true")["status"] == 200


def test_jolokia_says_what_is_not_there(shared_gateway: GatewayProcess) -> None:
    for mbean, attribute, kind in (
        (f"{BROKER},destinationType=Queue,destinationName=none", "QueueSize", "InstanceNotFoundException"),
        ("java.lang:type=Memory", "HeapMemoryUsage", "InstanceNotFoundException"),
        (BROKER, "Uptimes", "AttributeNotFoundException"),
    ):
        found = read(shared_gateway, mbean, attribute)
        assert (found["status"], kind in found["error_type"], "value" in found) == (404, True, False)


def test_jolokia_answers_the_posts_of_plug_ins(shared_gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    # Telegraf posts an array to URL/read, Metricbeat and Centreon to URL/.
    name = unique("posted")
    ask(shared_gateway, "POST", f"/api/message/{name}?type=queue&body=x")
    bean = f"org.apache.activemq:brokerName=localhost,destinationName={name},destinationType=Queue,type=Broker"
    wait_until(lambda: read(shared_gateway, bean, "QueueSize").get("value") == 1, "a sample with the message")
    queues = "org.apache.activemq:brokerName=*,destinationName=*,destinationType=Queue,type=Broker"
    asked = [
        {"type": "read", "mbean": "java.lang:type=Runtime", "attribute": ["Uptime"]},
        {"type": "read", "mbean": queues, "attribute": ["QueueSize", "ProducerCount"], "config": {}},
        {"type": "read", "mbean": f"{BROKER},service=Health", "attribute": ["CurrentStatus"]},
    ]
    for path in ("/api/jolokia/read", "/api/jolokia/?ignoreErrors=true&canonicalNaming=false", "/api/jolokia"):
        status, text, _ = ask(shared_gateway, "POST", path, json.dumps(asked).encode())
        found = json.loads(text)
        assert (status, [one["status"] for one in found]) == (200, [404, 200, 200])
        assert found[1]["value"][bean] == {"QueueSize": 1, "ProducerCount": 0}
        assert found[2]["value"] == {"CurrentStatus": "Good"}
    assert shared_gateway.get_json("/api/jolokia/")["value"]["protocol"] == "7.2"
    assert bean in shared_gateway.get_json("/api/jolokia/search/org.apache.activemq:*")["value"]
    for body in (b"[", b"5", b"[" + b"{}," * 32 + b"{}]"):
        status, text, _ = ask(shared_gateway, "POST", "/api/jolokia", body)
        assert (status, "allowed is" in text or "at most 32 objects" in text) == (400, True), text
