"""``XPATH '...'`` in a selector, ActiveMQ's condition on the body: docs/reference/selectors.md."""

from __future__ import annotations

import pytest

from engine.selector.evaluate import compile_selector
from engine.selector.parser import parse
from engine.selector.properties import Properties, Value
from engine.selector.syntax import And, BodyTest, Comparison, Identifier, Literal, Not, write
from engine.selector.xpath.document import Node, read_document
from engine.values.errors import InvalidSelector
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, ULong
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import AmqpGateway, text
from tests.support.protocols.stomp_gateway import StompGateway, connected

BIG = "<order><total>900</total></order>"
SMALL = "<order><total>5</total></order>"
SELECTOR = "XPATH '/order/total > 100'"


class Counted(Properties):
    """Counts how often the body is read."""

    converts_strings = True

    def __init__(self, body: str, **properties: Value) -> None:
        self.body = body
        self.properties = properties
        self.read_count = 0

    def get(self, name: str) -> Value:
        return self.properties.get(name)

    def document(self) -> Node | None:
        self.read_count += 1
        return read_document(self.body.encode())


@pytest.mark.parametrize(
    ("selector", "node"),
    [
        (SELECTOR, BodyTest("/order/total > 100")),
        ("xpath '//a=''x'''", BodyTest("//a='x'")),
        ("NOT XPATH 'a'", Not(BodyTest("a"))),
        ("XPATH 'a' AND b = 1", And((BodyTest("a"), Comparison(Identifier("b"), "=", Literal(1))))),
        ("XPATH 'a' = TRUE", Comparison(BodyTest("a"), "=", Literal(True))),
        ("XPATH = 'a'", Comparison(Identifier("XPATH"), "=", Literal("a"))),
        ("xpath", Identifier("xpath")),
    ],
)
def test_it_is_read_and_written_back(selector: str, node: object) -> None:
    found = parse(selector)
    assert found == node
    assert parse(write(found)) == node


@pytest.mark.parametrize("selector", ["XPATH '//'", "XPATH 'a' + 1 = 2", "XQUERY 'a'", "XPATH 'a' LIKE 'b'", "XPATH a"])
def test_what_is_refused(selector: str) -> None:
    with pytest.raises(InvalidSelector):
        compile_selector(selector)


def test_a_body_is_read_only_where_the_rest_leaves_it_open() -> None:
    selector = compile_selector(f"colour = 'red' AND {SELECTOR}")
    blue, red = Counted(BIG, colour="blue"), Counted(BIG, colour="red")
    assert (selector.matches(blue), blue.read_count) == (False, 0)
    assert (selector.matches(red), red.read_count) == (True, 1)
    other = Counted(BIG, colour="red")
    assert compile_selector("colour = 'red'").matches(other)
    assert other.read_count == 0


def test_what_is_no_document_does_not_match_and_its_opposite_does() -> None:
    for body in ("no XML", "", "<order>"):
        assert not compile_selector(SELECTOR).matches(Counted(body))
        assert compile_selector(f"NOT {SELECTOR}").matches(Counted(body))


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("has_length", [False, True])
def test_over_stomp(version: str, has_length: bool) -> None:
    peer = StompGateway().connect(version)
    peer.subscribe("/queue/q", "auto", selector=SELECTOR)
    for body in (SMALL, BIG, "no XML"):
        peer.publish("/queue/q", body.encode(), **({"content_length": str(len(body))} if has_length else {}))
    assert peer.bodies() == [BIG.encode()]


def test_of_a_topic_and_a_durable_subscription() -> None:
    gateway, peer = connected(client_id="shop")
    peer.subscribe("/topic/t", "auto", id="1", selector=SELECTOR)
    peer.subscribe("/topic/t", "auto", id="2", selector=SELECTOR, **{"activemq.subscriptionName": "n"})
    gateway.connect().publish("/topic/t", SMALL.encode(), BIG.encode(), persistent="true")
    assert peer.bodies() == [BIG.encode()] * 2


def test_it_looks_into_what_lies_on_disk() -> None:
    gateway = StompGateway(address("q", prefetch__queue_prefetch=10), memory_limit_bytes=200_000)
    peer = gateway.connect()
    padded = SMALL + " " * 5_000
    peer.publish("/queue/q", *[padded.encode()] * 100, BIG.encode(), persistent="true")
    assert gateway.memory_used() < 100 * 5_000, "most of it is on disk alone"
    reader = gateway.subscriber("/queue/q", "auto", selector=SELECTOR)
    for _ in range(10):
        gateway.advance(1)  # what looking into bodies takes is more than one turn has
    assert reader.bodies() == [BIG.encode()]


@pytest.mark.parametrize(
    ("octets", "is_wanted"),
    [
        (text(BIG), True),
        (text(BIG.encode()), True),
        (b"\x00\x53\x75" + encode(BIG[:9].encode()) + b"\x00\x53\x75" + encode(BIG[9:].encode()), True),
        (text(SMALL), False),
        (text({"order": BIG}), False),
    ],
)
def test_over_amqp(octets: bytes, is_wanted: bool) -> None:
    gateway = AmqpGateway()
    gateway.connect().publish("/queue/q", SMALL.encode())
    peer = gateway.amqp_session()
    source = {"filter": {Symbol("selector"): Described(ULong(0x468C00000004), SELECTOR)}}
    peer.attach_receiver("q", credit=10, of_source=source)
    assert peer.take() == []
    sender = gateway.amqp_session(container="other")
    sender.attach_sender("q")
    sender.transfer(octets)
    assert len(peer.messages()) == is_wanted


def test_what_is_no_xpath_is_refused_when_the_consumer_subscribes() -> None:
    peer = StompGateway().subscriber("/queue/q", selector="XPATH '//order['")
    error = peer.error()
    assert error["condition"] == "invalid-selector"
    assert b"XPath: found the end" in error.body
