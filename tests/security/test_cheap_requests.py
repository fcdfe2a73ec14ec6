"""Requests that are cheap to send and dear to answer: they hold nobody."""

from __future__ import annotations

import pytest

from engine.features.statistics_plugin import QUESTIONS_PER_CLIENT_MAX
from protocols.amqp.v1_0.wire.performatives import Attach, Begin, Close, End, Flow, Transfer
from protocols.amqp.v1_0.wire.termini import Source, Target
from tests.support.hostile.honest_clients import Trips, go_on
from tests.support.hostile.hostile_peers import Hostiles, frame


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
