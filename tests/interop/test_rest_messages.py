"""Messages over HTTP with the real gateway: sent, browsed, taken with leases and settled, beside STOMP clients."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from config.scram import hash_password
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.rest import RestClient, path_of
from tests.support.process.stomp_py import Client
from tests.support.process.waiting import wait_until


def numbers(gateway: GatewayProcess, name: str) -> dict[str, Any]:
    found = {one["name"]: one for one in gateway.get_json("/api/stat")["destinations"]}
    return dict(found.get(name, {}))


def bodies(messages: list[dict[str, Any]]) -> list[Any]:
    return [one["body"] for one in messages]


def test_a_message_keeps_its_fields_and_the_types_of_its_properties(
    rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("orders")
    properties = {"n": 5, "b": True, "f": 1.5, "s": "x:\n\\ä", "of": "a,b=c"}
    fields = {"type": "T", "correlation_id": "c:1", "reply_to": "queue://answers", "group": "g", "content_type": "x/y"}
    status, answer = rest.send(name, "ä\nb", properties=properties, priority=7, ttl_ms=600_000, **fields)
    assert status == 201, answer
    found = rest.browse(name)["messages"][0]
    assert found["id"] == answer["id"]
    assert found["properties"] == properties
    assert {member: found[member] for member in fields} == fields
    assert (found["body"], found["priority"], found["persistent"], found["destination"]) == (
        "ä\nb",
        7,
        True,
        f"queue://{name}",
    )
    assert found["expires_ms"] - found["store_time_ms"] == 600_000
    status, same = rest.ask("GET", f"/api/messages/{answer['id']}")
    assert (status, same) == (200, found)


def test_bodies_are_texts_json_or_octets(rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("bodies")
    octets = bytes(range(256))
    assert rest.ask("POST", f"{path_of(name)}/messages", {"body_base64": base64.b64encode(octets).decode()})[0] == 201
    assert rest.ask("POST", f"{path_of(name)}/messages", {"body_json": {"a": [1, None, "ä"]}})[0] == 201
    assert rest.ask("POST", f"{path_of(name)}/body", raw=octets, kind="application/octet-stream")[0] == 201
    assert rest.ask("POST", f"{path_of(name)}/body", raw=b'{"b": 2}', kind="application/json", priority=4)[0] == 201
    found = rest.browse(name)["messages"]
    assert [base64.b64decode(one["body_base64"]) for one in (found[0], found[2])] == [octets, octets]
    assert [one["body"] for one in (found[1], found[3])] == ['{"a": [1, null, "ä"]}', '{"b": 2}']
    as_json = rest.browse(name, body="json")["messages"]
    assert [as_json[1]["body_json"], as_json[3]["body_json"]] == [{"a": [1, None, "ä"]}, {"b": 2}]
    assert "body_base64" in as_json[0]
    assert all("body" not in one and one["body_bytes"] for one in rest.browse(name, body="none")["messages"])


def test_stomp_and_http_share_a_queue(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("shared")
    client = Client(shared_gateway, "1.2").connect()
    client.send(f"/queue/{name}", "from stomp", persistent="true", color="red")
    taken = rest.take(name, wait_ms=10_000)
    assert (bodies(taken), taken[0]["properties"]) == (["from stomp"], {"color": "red"})
    assert rest.settle(taken) == {"settled": 1, "unknown": []}
    rest.send(name, "from http", properties={"n": 5})
    client.subscribe(f"/queue/{name}", "client-individual", selector="n = 5")
    message = client.message()
    assert (message.body, message.headers["n"]) == ("from http", "5")
    client.ack(message)
    client.close()


def test_a_nul_makes_no_frame(shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]) -> None:
    """A NUL ends a STOMP frame: behind one in a header a sender could write frames of the gateway to other clients."""
    name = unique("nul")
    client = Client(shared_gateway, "1.2").connect()
    client.subscribe(f"/queue/{name}", "auto")
    frame = "\0ERROR\nmessage:forged\n\n\0"
    others = dict.fromkeys(("correlation_id", "type", "group", "reply_to", "content_type"), f"v{frame}")
    rest.send(name, frame, properties={"p": frame, f"n{frame}": 1}, **others)
    rest.send(name, "after it")
    message = client.message()
    assert (message.body, message.headers["p"]) == (frame, frame.replace("\0", " "))
    assert client.message().body == "after it"
    client.close()


def test_pages_of_a_long_queue_show_each_message_once(rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("long")
    for number in range(130):
        rest.send(name, str(number), properties={"n": number}, persistent=number % 2 == 0)
    page = rest.browse(name, limit=50, filter="n >= 10")
    seen = bodies(page["messages"])
    assert len(seen) == 50
    while page["next"]:
        status, page = rest.ask("GET", f"/api/cursors/{page['next']}", limit=33)
        assert status == 200, page
        assert len(page["messages"]) <= 33
        seen += bodies(page["messages"])
    assert sorted(seen, key=int) == [str(number) for number in range(10, 130)]
    assert bodies(rest.take(name)) == ["0"], "browsing takes nothing"


def test_a_cursor_leads_to_one_page(rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("cursor")
    for number in range(3):
        rest.send(name, str(number))
    following = rest.browse(name, limit=1)["next"]
    assert rest.ask("GET", f"/api/cursors/{following}")[0] == 200
    status, answer = rest.ask("GET", f"/api/cursors/{following}")
    assert (status, "begin again" in answer["detail"]) == (404, True)


def test_head_neither_opens_nor_uses_a_cursor(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("head")
    for number in range(2):
        rest.send(name, str(number))
    path = f"/api/cursors/{rest.browse(name, limit=1)['next']}"
    for one, allowed in ((path, {"GET"}), (f"{path_of(name)}/messages", {"GET", "POST"})):
        rest._connection.request("HEAD", one)
        response = rest._connection.getresponse()
        assert (response.status, response.read()) == (405, b"")
        assert set(response.headers["Allow"].split(", ")) == allowed
    status, page = rest.ask("GET", path)
    assert (status, bodies(page["messages"])) == (200, ["1"])


def test_a_name_with_braces(rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("low.{x}")
    assert rest.send(name, "b")[0] == 201
    assert bodies(rest.browse(name)["messages"]) == bodies(rest.take(name)) == ["b"]


def test_outcomes(shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("outcomes")
    rest.send(name, "x")
    taken = rest.take(name)
    assert (taken[0]["redelivered"], taken[0]["delivery_count"]) == (False, 1)
    rest.settle(taken, "release")
    taken = rest.take(name, wait_ms=10_000)
    assert (taken[0]["redelivered"], taken[0]["delivery_count"]) == (True, 1), "a release is no failure"
    rest.settle(taken, "fail")
    taken = rest.take(name, wait_ms=30_000)
    assert (taken[0]["redelivered"], taken[0]["delivery_count"]) == (True, 2)
    assert rest.settle(taken, "dead-letter")["settled"] == 1
    assert rest.settle(taken, "acknowledge") == {"settled": 0, "unknown": [taken[0]["lease"]]}
    assert numbers(shared_gateway, name)["dead_lettered"] == 1
    dead = rest.browse("ActiveMQ.DLQ", limit=500)["messages"]
    assert [one["body"] for one in dead if one["annotations"].get("original-destination") == f"/queue/{name}"] == ["x"]


def test_a_lease_that_ends_is_a_lost_consumer(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("leases")
    rest.send(name, "x")
    first = rest.take(name, lease_ms=1_000)
    assert rest.take(name) == []
    second = rest.take(name, wait_ms=30_000, lease_ms=60_000)
    assert (second[0]["redelivered"], second[0]["delivery_count"]) == (True, 2)
    assert rest.settle(first)["unknown"] == [first[0]["lease"]]
    assert rest.settle(second)["settled"] == 1
    assert numbers(shared_gateway, name)["depth"] == 0


def test_several_are_taken_and_settled_one_by_one(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("several")
    for number in range(10):
        rest.send(name, str(number))
    taken = rest.take(name, count=4)
    assert bodies(taken) == ["0", "1", "2", "3"]
    assert rest.settle(taken[:2])["settled"] == 2
    assert numbers(shared_gateway, name)["in_flight"] == 2, "what is settled makes no room for more"
    assert bodies(rest.take(name, count=2)) == ["4", "5"]
    assert rest.settle(taken[2:], "release")["settled"] == 2
    assert bodies(rest.take(name, count=2)) == ["2", "3"]


def test_a_request_waits_for_a_message(
    rest: RestClient, shared_gateway: GatewayProcess, unique: Callable[[str], str]
) -> None:
    name = unique("waits")
    other = RestClient(shared_gateway)
    taken: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: taken.extend(other.take(name, wait_ms=60_000)))
    waiting.start()
    wait_until(lambda: numbers(shared_gateway, name).get("consumers") == 1, "it waits")
    rest.send(name, "late")
    waiting.join(60)
    assert bodies(taken) == ["late"]
    other.close()


def test_what_a_lost_connection_had_asked_for_goes_to_nobody(
    rest: RestClient, shared_gateway: GatewayProcess, unique: Callable[[str], str]
) -> None:
    name = unique("hang-up")
    other = RestClient(shared_gateway)
    other._connection.request("POST", f"{path_of(name)}/take?wait_ms=60000")
    wait_until(lambda: numbers(shared_gateway, name).get("consumers") == 1, "it waits")
    other.close()
    wait_until(lambda: numbers(shared_gateway, name).get("consumers") == 0, "it has left")
    rest.send(name, "x")
    taken = rest.take(name)
    assert (bodies(taken), taken[0]["delivery_count"]) == (["x"], 1)


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_lease_may_end_with_its_connection(
    rest: RestClient, shared_gateway: GatewayProcess, unique: Callable[[str], str], is_bound: bool
) -> None:
    name = unique("bound")
    rest.send(name, "x")
    other = RestClient(shared_gateway)
    taken = other.take(name, lease_ms=3_600_000, ends_with_connection=is_bound)
    other.close()
    if is_bound:
        again = rest.take(name, wait_ms=30_000)
        assert (bodies(again), again[0]["redelivered"], again[0]["delivery_count"]) == (["x"], True, 2)
        assert rest.settle(taken)["settled"] == 0
    else:
        assert rest.settle(taken)["settled"] == 1, "any connection of the user may settle it"


def test_confirmed_over_a_kill(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    name = unique("killed")
    rest = RestClient(gateway)
    for number in range(20):
        assert rest.send(name, str(number))[0] == 201
    taken = rest.take(name, count=7)
    rest.settle(taken[:5])
    rest.close()
    gateway.kill9()
    gateway.start()
    rest = RestClient(gateway)
    assert sorted(map(int, bodies(rest.take(name, count=100, wait_ms=10_000)))) == list(range(5, 20))
    rest.close()


def test_an_orderly_stop_counts_no_attempt(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    name = unique("stopped")
    rest = RestClient(gateway)
    rest.send(name, "x")
    assert len(rest.take(name)) == 1
    rest.close()
    assert gateway.terminate() == 0
    gateway.start()
    rest = RestClient(gateway)
    taken = rest.take(name, wait_ms=10_000)
    assert (taken[0]["body"], taken[0]["delivery_count"]) == ("x", 1)
    rest.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("GET", "{q}/messages", None, 404, "no queue"),
        ("GET", "/api/destinations/topic%3A%2F%2Fx/messages", None, 400, "which keeps no messages"),
        ("POST", "/api/destinations/topic%3A%2F%2Fx/take", None, 400, "which keeps no messages"),
        ("POST", "/api/destinations/a.%3E/messages", {}, 400, "no wildcard"),
        ("POST", "{q}/messages", {"body": "a", "body_json": 1}, 400, "body and body_json are given"),
        ("POST", "{q}/messages", {"body_base64": "?"}, 400, "allowed is base64"),
        ("POST", "{q}/messages", {"body": "\ud800"}, 400, "allowed is a text"),
        ("POST", "{q}/messages", {"properties": {"receipt": "1"}}, 400, "belongs to the gateway"),
        ("POST", "{q}/messages", {"properties": {"transaction": "1"}}, 400, "belongs to the gateway"),
        ("POST", "{q}/messages", {"properties": {" subscription": "1"}}, 400, "belongs to the gateway"),
        ("POST", "{q}/messages", {"properties": {"JMSXUserID :": "1"}}, 400, "belongs to the gateway"),
        ("POST", "{q}/messages", {"properties": {"ack\r\0": "1"}}, 400, "belongs to the gateway"),
        ("POST", "{q}/messages", {"properties": {"a": [1]}}, 400, "object of at most 1000 texts"),
        ("POST", "{q}/messages", {"properties": {"a": 10**30}}, 400, "object of at most 1000 texts"),
        ("POST", "{q}/messages", {"properties": {f"n{i}": i for i in range(1001)}}, 400, "at most 1000 texts"),
        ("POST", "{q}/messages", {"reply_to": "/temp-queue/x"}, 400, "temporary"),
        ("POST", "{q}/messages", {"priority": 10}, 400, "from 0 to 9"),
        ("POST", "{q}/take?filter=n+%3D", None, 400, "selector"),
        ("POST", "{q}/take?wait_ms=60001", None, 400, "from 0 to 60000"),
        ("GET", "/api/messages/ID:other-1", None, 404, "is not an id of this store"),
        ("GET", "/api/cursors/x", None, 404, "begin again"),
        ("POST", "/api/settle", {"leases": ["x"], "outcome": "eat"}, 400, "one of acknowledge"),
    ],
)
def test_what_is_wrong_is_said(
    rest: RestClient, unique: Callable[[str], str], method: str, path: str, body: Any, status: int, text: str
) -> None:
    found, document = rest.ask(method, path.format(q=path_of(unique("wrong"))), body)
    assert (found, text in document["detail"]) == (status, True), document


def test_permissions_are_those_of_every_protocol(start_gateway: StartGateway) -> None:
    verifiers = ", ".join(f'"{one}"' for one in hash_password("secret", 4096))
    gateway = start_gateway(
        f"""
users:
  alice: {{verifiers: [{verifiers}], groups: [writers]}}
  bob: {{verifiers: [{verifiers}], groups: [readers]}}
  eve: {{verifiers: [{verifiers}], groups: [lookers]}}
permissions:
  - match: "orders.>"
    write: [writers]
    create: [writers]
    read: [readers]
    browse: [lookers, readers]
"""
    )
    alice, bob, eve = (RestClient(gateway, (login, "secret")) for login in ("alice", "bob", "eve"))
    status, sent = alice.send("orders.eu", "x")
    assert status == 201, sent
    for client in (bob, eve):
        assert client.send("orders.eu", "x")[0] == 403
    assert alice.send("other", "x")[0] == 403
    assert alice.ask("POST", f"{path_of('orders.eu')}/take")[0] == 403
    assert eve.ask("POST", f"{path_of('orders.eu')}/take")[0] == 403
    assert alice.ask("GET", f"{path_of('orders.eu')}/messages")[0] == 403
    assert eve.ask("GET", f"{path_of('nowhere')}/messages")[0] == 403, "whether it exists is nobody's business"
    assert bodies(eve.browse("orders.eu")["messages"]) == ["x"]
    store, _, digits = sent["id"].rpartition("-")
    for offset in (int(digits), int(digits) + 1):  # a message, and the middle of its record
        status, document = eve.ask("GET", f"/api/messages/{store}-{offset}")
        assert (status, document["detail"]) == (404, f"no message is at log offset {offset}"), document
        assert document["condition"] == "unknown-message"
    assert bob.ask("GET", f"/api/messages/{sent['id']}")[0] == 200
    taken = bob.take("orders.eu", lease_ms=3_600_000)
    assert alice.settle(taken) == {"settled": 0, "unknown": [taken[0]["lease"]]}, "a lease belongs to its user"
    assert bob.settle(taken)["settled"] == 1
    nobody = RestClient(gateway)
    assert nobody.ask("GET", "/api/openapi.json")[0] == 401
    for client in (alice, bob, eve, nobody):
        client.close()


def test_an_operator_closes_a_connection(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("closed")
    client = Client(shared_gateway, "1.2").connect()
    client.send(f"/queue/{name}", "x", persistent="true")
    client.subscribe(f"/queue/{name}", "client-individual")
    client.message()
    consumers = shared_gateway.get_json("/api/stat")["consumers"]
    number = next(one["connection_id"] for one in consumers if one["destination"] == f"queue://{name}")
    assert rest.ask("DELETE", f"/api/connections/{number}") == (200, {"closed": number})
    error = client.error()
    assert (error.headers["message"], "closed by an operator" in error.body) == ("closed by an operator", True)
    assert bodies(rest.take(name, wait_ms=30_000)) == ["x"]
    assert rest.ask("DELETE", f"/api/connections/{number}")[0] == 404
    client.close()


def test_connections_are_listed(shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("listed")
    client = Client(shared_gateway, "1.2").connect(**{"client-id": name})
    client.subscribe(f"/queue/{name}", "client-individual")
    rest.send(name, "x")
    client.message()
    (row,) = shared_gateway.get_json(f"/api/connections?search={name}")["connections"]
    assert (row["protocol"], row["client_id"], row["consumers"], row["waits_for"]) == ("stomp", name, 1, "")
    assert row["address"].startswith("127.0.0.1")
    consumers = shared_gateway.get_json(f"/api/connections?connection_id={row['connection_id']}")["connections"]
    assert [one["client_id"] for one in consumers] == [name]
    assert "http" in {one["protocol"] for one in shared_gateway.get_json("/api/connections?limit=500")["connections"]}
    client.close()


def test_a_closed_client_of_http_gives_its_messages_back(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("closed")
    rest.send(name, "x")
    taken = rest.take(name, lease_ms=3_600_000)
    consumers = shared_gateway.get_json("/api/stat")["consumers"]
    number = next(one["connection_id"] for one in consumers if one["destination"] == f"queue://{name}")
    assert rest.ask("DELETE", f"/api/connections/{number}")[0] == 200
    assert bodies(rest.take(name, wait_ms=30_000)) == ["x"]
    assert rest.settle(taken)["settled"] == 0


@pytest.mark.parametrize("is_persistent", [True, False])
def test_one_message_is_deleted_moved_and_copied(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str], is_persistent: bool
) -> None:
    name, other = unique("single"), unique("other")
    ids = [
        rest.send(name, str(number), persistent=is_persistent, properties={"n": number})[1]["id"] for number in range(5)
    ]
    path = f"{path_of(name)}/messages"
    assert rest.ask("DELETE", f"{path}/{ids[1]}") == (200, {"deleted": ids[1]})
    status, moved = rest.ask("POST", f"{path}/{ids[2]}/move", {"to": other})
    assert status == 201, moved
    status, copied = rest.ask("POST", f"{path}/{ids[3]}/copy", {"to": other})
    assert status == 201, copied
    assert bodies(rest.browse(name)["messages"]) == ["0", "3", "4"]
    there = rest.browse(other)["messages"]
    assert [(one["id"], one["body"], one["properties"]) for one in there] == [
        (moved["id"], "2", {"n": 2}),
        (copied["id"], "3", {"n": 3}),
    ]
    taken = rest.take(name)
    for one in (ids[1], taken[0]["id"]):
        status, refused = rest.ask("DELETE", f"{path}/{one}")
        assert (status, "does not wait in queue" in refused["detail"]) == (404, True)
    assert rest.ask("DELETE", f"{path}/ID:other-1")[0] == 404
    assert rest.ask("POST", f"{path_of(unique('none'))}/messages/{ids[0]}/move", {"to": other})[0] == 404
    assert numbers(shared_gateway, name)["in_flight"] == 1, "nobody else holds anything"


def test_a_property_hides_no_id(rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("forged")
    real = rest.send(name, "real")[1]["id"]
    offset = real.rpartition("-")[2]
    rest.send(name, "forged", properties={"JMSXLogOffset": int(offset)}, persistent=False, priority=9)
    assert rest.ask("DELETE", f"{path_of(name)}/messages/{real}")[0] == 200
    assert bodies(rest.browse(name)["messages"]) == ["forged"]


def test_a_dead_letter_is_moved_back_over_a_kill(gateway: GatewayProcess) -> None:
    rest = RestClient(gateway)
    rest.send("work", "x")
    rest.settle(rest.take("work"), "dead-letter")
    dead = rest.browse("ActiveMQ.DLQ")["messages"][0]["id"]
    assert rest.ask("POST", f"{path_of('ActiveMQ.DLQ')}/messages/{dead}/move", {"to": "work"})[0] == 201
    rest.close()
    gateway.kill9()
    gateway.start()
    rest = RestClient(gateway)
    assert rest.browse("ActiveMQ.DLQ")["messages"] == []
    taken = rest.take("work", wait_ms=10_000)
    assert (bodies(taken), taken[0]["delivery_count"]) == (["x"], 1)
    rest.close()


def test_a_stop_ends_requests_that_wait(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    rest = RestClient(gateway)
    name = unique("stop")
    taken: list[list[dict[str, Any]]] = []
    waiting = threading.Thread(target=lambda: taken.append(rest.take(name, wait_ms=60_000)))
    waiting.start()
    wait_until(lambda: numbers(gateway, name).get("consumers") == 1, "it waits")
    assert gateway.terminate() == 0
    waiting.join(60)
    assert taken == [[]]
    rest.close()


def test_gates_and_limits(start_gateway: StartGateway) -> None:
    gateway = start_gateway(
        """
addresses:
  - {match: "block.>", max-size-messages: 1, address-full-policy: BLOCK}
  - {match: "fail.>", max-size-messages: 1, address-full-policy: FAIL}
"""
    )
    rest = RestClient(gateway)
    for name, status, condition in (("block.a", 503, "blocked"), ("fail.a", 507, "address-full")):
        answers = [rest.send(name, "x") for _ in range(3)]
        assert answers[0][0] == 201
        assert (answers[2][0], answers[2][1]["condition"]) == (status, condition), answers
        assert len(rest.browse(name)["messages"]) == sum(answer[0] == 201 for answer in answers), "nothing is half sent"
    with closing(raw_stomp.client(gateway)) as sender:  # by HTTP each would be awaited, on a busy machine for a minute
        list(sender.publish([("/queue/many", b"x")] * 1_001))
    held = [rest.take("many", count=100, lease_ms=3_600_000) for _ in range(10)]
    assert [len(one) for one in held] == [100] * 10
    status, answer = rest.ask("POST", f"{path_of('many')}/take")
    assert (status, answer["condition"], "1000 messages unsettled" in answer["detail"]) == (429, "limit-reached", True)
    assert rest.settle(held[0])["settled"] == 100
    assert len(rest.take("many", count=100)) == 1
    rest.close()


def test_large_messages_come_in_parts(rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("large")
    body = "x" * 900_000
    for _ in range(12):
        assert rest.send(name, body)[0] == 201
    status, refused = rest.send(name, "x" * 1_100_000)
    assert (status, refused["condition"]) == (413, "body-too-large")
    page = rest.browse(name, limit=500)
    assert page["next"], "a page ends at 4 MiB"
    seen = len(page["messages"])
    while page["next"]:
        status, page = rest.ask("GET", f"/api/cursors/{page['next']}", limit=500)
        seen += len(page["messages"])
    assert seen == 12
    parts: list[list[dict[str, Any]]] = []
    while sum(map(len, parts)) < 12:
        parts.append(rest.take(name, count=100, wait_ms=30_000))
        assert 0 < len(parts[-1]) < 12
        assert all(one["body"] == body for one in parts[-1])
