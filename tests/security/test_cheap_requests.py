"""Requests that are cheap to send and dear to answer: they hold nobody."""

from __future__ import annotations

import pytest

from engine.features.statistics_plugin import QUESTIONS_PER_CLIENT_MAX
from protocols.amqp.v1_0.wire.composites.delivery_states import Released
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from tests.support.hostile.honest_clients import Trips, go_on
from tests.support.hostile.hostile_config import HOSTILE
from tests.support.hostile.hostile_peers import Hostiles, basic, frame, request


@pytest.mark.parametrize(
    "selector",
    ["p LIKE '%" + "a%" * 30 + "b'", " AND ".join(["p LIKE '%a%a%a%b%'"] * 9), "XPATH '//a[.//b[.//c]]'"],
    ids=["many wildcards", "nine of them", "XPath"],
)
def test_costly_selectors_hold_nobody(selector: str, hostile: Hostiles, trips: list[Trips]) -> None:
    peer = hostile.stomp()
    peer.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.select", selector=selector, receipt="1"))
    peer.answer()
    body = b"<a>" * 200 + b"<b/>" + b"</a>" * 200
    for _ in range(30):
        peer.write(frame("SEND", body, destination="/topic/plain.select", p="a" * 4_000))
    peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    go_on(trips)
    assert peer.answer().head.headers["receipt-id"] == "end"


def test_a_cron_that_never_comes_is_refused(hostile: Hostiles, trips: list[Trips]) -> None:
    for cron in ("0 0 31 2 *", "0 0 30 2 *", "61 * * * *"):
        peer = hostile.stomp()
        peer.write(b"SEND\ndestination:/queue/plain.1\nAMQ_SCHEDULED_CRON:" + cron.encode() + b"\n\n\0")
        assert peer.refusal()[0] == "invalid-option"
    go_on(trips)


def test_many_questions_in_one_send_are_answered_in_turns(hostile: Hostiles, trips: list[Trips]) -> None:
    peers = [hostile.stomp() for _ in range(5)]
    many = ",".join(f"/queue/ActiveMQ.Statistics.Destination.{'*.' * number}>" for number in range(20))
    for peer in peers:
        peer.write(frame("SUBSCRIBE", id="1", destination="/temp-queue/mine"))
        for _ in range(QUESTIONS_PER_CLIENT_MAX // 20):
            peer.write(frame("SEND", destination=many, **{"reply-to": "/temp-queue/mine"}))
        peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    go_on(trips)
    for peer in peers:
        end = peer.answer()
        assert end.head.headers.get("receipt-id") == "end", f"{end.head.headers} {end.body!r}"


def test_many_wildcard_subscriptions_hold_nobody(hostile: Hostiles, trips: list[Trips]) -> None:
    peers = [hostile.stomp() for _ in range(10)]
    for peer in peers:
        for number in range(35):
            where = ("/queue/plain.>", "/topic/>", "/queue/*.1")[number % 3]
            peer.write(frame("SUBSCRIBE", id=f"{number}", destination=where, ack="client"))
        peer.write(frame("SEND", destination="/topic/plain.none", receipt="end"))
    go_on(trips)
    for number, peer in enumerate(peers):
        assert peer.answer().head.headers["receipt-id"] == "end"
        peer.write(frame("SEND", destination=f"/topic/plain.new.{number}", receipt="new"))
        assert peer.answer().head.headers["receipt-id"] == "new"
    go_on(trips)


def test_sessions_with_many_links_end_in_turns(hostile: Hostiles, trips: list[Trips]) -> None:
    peer = hostile.amqp()
    for handle in range(60):
        peer.send(Attach(f"{handle}", handle, True, source=Source(f"topic://plain.{handle % 3}"), target=Target()))
        peer.send(Flow(0, 10_000, 0, 10_000, handle, 0, 100))
        peer.wait_for(Attach)
    sender = hostile.stomp()
    for number in range(60):
        sender.write(frame("SEND", b"unsettled", destination=f"/topic/plain.{number % 3}"))
    for _ in range(20 * 60):
        peer.wait_for(Transfer)
    peer.send(End(), Begin(None, 0, 100, 100), Close())
    peer.wait_for(Close)
    go_on(trips)


NOTHING = b"\xf0\x00\x00\x00\x05\x00\x01\x00\x00\x40"  # an array of 65,536 nulls

BODIES = {
    "arrays of nothing": (b"\x00\x53\x77" + NOTHING) * 1_000,
    "sections with wide descriptors": b"\x00\x52\x77\x40" * 4_000,
}


@pytest.mark.parametrize("kind", BODIES)
def test_small_messages_with_many_values_hold_nobody(kind: str, hostile: Hostiles, trips: list[Trips]) -> None:
    reader = hostile.stomp()
    reader.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.values", receipt="1"))
    reader.answer()
    sender = hostile.amqp()
    sender.send(Attach("s", 0, False, source=Source(), target=Target("topic://plain.values"), initial_delivery_count=0))
    sender.wait_for(Flow)
    body = BODIES[kind]
    for number in range(10):
        for start in range(0, len(body), 8_000):
            piece = Transfer(0, number, b"%d" % number, 0, True, start + 8_000 < len(body))
            sender.write(encode_frame(0, piece, body[start : start + 8_000]))
    sender.send(Close())
    go_on(trips)
    sender.wait_for(Close)


PIPELINED = 500  # frames or pairs of frames of each flood
PIPELINED_REQUESTS = 20

STOMP_FLOODS = {
    "SUBSCRIBE": frame("SUBSCRIBE", id="f", destination="/queue/plain.1") + frame("UNSUBSCRIBE", id="f"),
    "SUBSCRIBE to wildcards": frame("SUBSCRIBE", id="f", destination="/topic/plain.>") + frame("UNSUBSCRIBE", id="f"),
    "BEGIN": frame("BEGIN", transaction="f") + frame("ABORT", transaction="f"),
    "SEND": frame("SEND", destination="/topic/plain.none"),
}
AMQP_FLOODS = {
    "attach": encode_frame(0, Attach("f", 7, True, source=Source("topic://plain.1"), target=Target()))
    + encode_frame(0, Detach(7, True)),
    "begin": encode_frame(3, Begin(None, 0, 100, 100)) + encode_frame(3, End()),
    "dispositions of ranges": encode_frame(0, Disposition(True, 5, 1 << 30, True, Released())),
    "flow": encode_frame(0, Flow(0, 100, 0, 100, echo=True)),
}


@pytest.mark.parametrize("kind", STOMP_FLOODS)
def test_pipelined_stomp_frames_hold_nobody(kind: str, hostile: Hostiles, trips: list[Trips]) -> None:
    peers = [hostile.stomp() for _ in range(10)]
    for peer in peers:
        peer.write(STOMP_FLOODS[kind] * PIPELINED + frame("SEND", destination="/topic/plain.none", receipt="end"))
    go_on(trips)
    for peer in peers:
        assert peer.answer().head.headers.get("receipt-id") == "end"


@pytest.mark.parametrize("kind", AMQP_FLOODS)
def test_pipelined_amqp_frames_hold_nobody(kind: str, hostile: Hostiles, trips: list[Trips]) -> None:
    peers = [hostile.amqp(f"flood {number}") for number in range(10)]
    for peer in peers:
        peer.write(AMQP_FLOODS[kind] * PIPELINED + encode_frame(0, Close()))
    go_on(trips)
    for peer in peers:
        assert isinstance(found := peer.wait_for(Close), Close) and found.error is None, found


# Refused once it is parsed: the client of a sender would stay for a minute.
NESTED = '{"body": "two bodies", "body_json": [' + ", ".join(["[{}]"] * 9_000) + "]}"
HTTP_FLOODS = {
    "browse": ("GET", "/api/destinations/plain.1/messages?limit=500&filter=x+LIKE+%27%25a%25b%27", ""),
    "take": ("POST", "/api/destinations/plain.1/take?count=100&filter=x+LIKE+%27%25a%25b%27", ""),
    "nested JSON": ("POST", "/api/destinations/topic%3A%2F%2Fplain.none/messages", NESTED),
    "unknown parameters": ("GET", "/api/destinations/plain.1/messages?" + "&".join(f"x{n}=1" for n in range(500)), ""),
}


@pytest.mark.parametrize("kind", HTTP_FLOODS)
def test_pipelined_http_requests_hold_nobody(kind: str, hostile: Hostiles, trips: list[Trips]) -> None:
    method, path, body = HTTP_FLOODS[kind]
    pipelined = request(path, method, body, basic(HOSTILE)).replace(b"Connection: close\r\n", b"") * PIPELINED_REQUESTS
    peers = [hostile.http() for _ in range(10)]
    for peer in peers:
        assert peer.write(pipelined + request("/healthz"))
    go_on(trips)
    for peer in peers:
        answers = peer.read_all()
        assert answers.count(b"HTTP/1.1 ") == PIPELINED_REQUESTS + 1, answers[-300:]
        assert b"HTTP/1.1 500" not in answers
