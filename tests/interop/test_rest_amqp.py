"""Messages of AMQP over HTTP, and the other way: the types of properties stay, and one message is found by its id."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable

import pytest

from tests.support.process.gateway_process import HTTP_LIMIT_S, GatewayProcess
from tests.support.process.rest import RestClient, path_of
from tests.support.process.stomp_py import Connect

pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")
from proton import Message, int32
from proton.utils import BlockingConnection

PROPERTIES = {"n": 5, "b": True, "f": 1.5, "i": 7, "s": "x"}


def test_properties_keep_their_types_both_ways(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("typed")
    connection = BlockingConnection(f"amqp://127.0.0.1:{shared_gateway.stomp_port}")
    sender = connection.create_sender(f"queue://{name}")
    sent = {**PROPERTIES, "i": int32(7)}
    sender.send(Message(body="from amqp", properties=sent, durable=True, correlation_id="c", subject="T"))
    taken = rest.take(name, wait_ms=10_000)
    assert (taken[0]["body"], taken[0]["properties"]) == ("from amqp", PROPERTIES)
    assert (taken[0]["correlation_id"], taken[0]["type"]) == ("c", "T")
    rest.settle(taken)
    rest.send(name, "from http", properties=PROPERTIES, correlation_id="d")
    receiver = connection.create_receiver(f"queue://{name}")
    message = receiver.receive(timeout=60)
    receiver.accept()
    assert (message.body, message.properties, message.correlation_id) == ("from http", PROPERTIES, "d")
    assert [type(value) for value in message.properties.values()] == [int, bool, float, int, str]
    connection.close()


def test_the_trace_of_a_request_goes_on_in_its_message(
    shared_gateway: GatewayProcess, rest: RestClient, connect: Connect, unique: Callable[[str], str]
) -> None:
    name = unique("traced")
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "congo=t61rcWkg"}
    for path in ("messages", "body"):
        url = f"{shared_gateway.http_url}{path_of(name)}/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, b"{}", trace), timeout=HTTP_LIMIT_S) as answer:
            assert answer.status == 201
    assert [one["properties"] for one in rest.browse(name)["messages"]] == [trace, trace]
    client = connect("1.2")
    client.subscribe(f"/queue/{name}", **{"activemq.prefetchSize": "1"})
    assert trace.items() <= client.message().headers.items()
    client.unsubscribe()
    own = {"traceparent": trace["traceparent"].replace("-00f0", "-11f1")}
    with urllib.request.urlopen(
        urllib.request.Request(
            f"{shared_gateway.http_url}{path_of(name)}/messages", json.dumps({"properties": own}).encode(), trace
        ),
        timeout=HTTP_LIMIT_S,
    ):
        pass
    connection = BlockingConnection(f"amqp://127.0.0.1:{shared_gateway.stomp_port}")
    receiver = connection.create_receiver(f"queue://{name}")
    found: list[dict[str, object]] = []
    while not found or found[-1]["traceparent"] == trace["traceparent"]:
        found.append(receiver.receive(timeout=60).properties)
        receiver.accept()
    assert found[-1] == {**trace, **own}
    connection.close()


def test_one_message_of_amqp_is_deleted_and_moved(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name, other = unique("single"), unique("other")
    connection = BlockingConnection(f"amqp://127.0.0.1:{shared_gateway.stomp_port}")
    sender = connection.create_sender(f"queue://{name}")
    for number in range(3):
        sender.send(Message(body=str(number), id=f"own-{number}", properties=PROPERTIES, durable=True))
    ids = [one["id"] for one in rest.browse(name)["messages"]]
    assert rest.ask("DELETE", f"{path_of(name)}/messages/{ids[0]}")[0] == 200
    assert rest.ask("POST", f"{path_of(name)}/messages/{ids[1]}/move", {"to": other})[0] == 201
    assert [one["body"] for one in rest.browse(name)["messages"]] == ["2"]
    assert [(one["body"], one["properties"]) for one in rest.browse(other)["messages"]] == [("1", PROPERTIES)]
    connection.close()
