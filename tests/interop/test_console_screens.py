"""Each screen of the console in Chromium, against the real gateway, and what axe-core says about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from protocols.openwire.session.branch_commands import END, PREPARE
from protocols.openwire.session.requests import BEGIN
from protocols.openwire.wire.commands import TransactionInfo
from protocols.openwire.wire.identities import QUEUE, Destination, XaTransactionId
from tests.support.process.console_page import Console
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.raw_openwire import RawOpenWire
from tests.support.process.rest import RestClient
from tests.support.process.stomp_py import Connect
from tests.support.process.waiting import wait_until

LATER_MS: Final = 3_600_000
DLQ: Final = "ActiveMQ.DLQ"
ONE_ATTEMPT: Final = "addresses:\n  - match: '>'\n    redelivery:\n      maximum-redeliveries: 0\n"
SERIOUS: Final = """
    const done = arguments[arguments.length - 1];
    axe.run().then(found => done(found.violations.map(one => [one.impact, one.id, one.nodes.map(node => node.html)])));
"""


@pytest.fixture
def page(browser: Any, shared_gateway: GatewayProcess) -> Iterator[Console]:
    console = Console(browser, shared_gateway.http_url)
    console.complaints()
    yield console
    assert console.complaints() == []
    browser.get("about:blank")


@pytest.mark.parametrize("path", ["/", "/console", "/console/"])
def test_the_address_that_the_start_prints_shows_the_destinations(page: Console, path: str) -> None:
    page.visit(path)
    page.has("Search names", "accepts messages", "Previous")
    assert "Cannot" not in page.text()


def test_connections_are_shown_and_closed(page: Console, connect: Connect, unique: Callable[[str], str]) -> None:
    name = unique("mine")
    client = connect("1.2", headers={"client-id": name})
    client.subscribe(f"/queue/{name}", subscription="sub-9")
    page.open("connections")
    page.has("Connections", "stomp")
    page.search(name)
    page.has("1 to 1 of 1")
    (row,) = page.cells("Connections")
    assert (row[1], row[3], row[5]) == ("stomp", name, "1")
    page.press(row[0])
    page.has(f"Connection {row[0]}", f"queue://{name}", "sub-9", "open: its messages are accepted")
    page.press("Close the connection")
    page.press("Yes")
    page.has(f"Connection {row[0]} is closed.")
    assert client.error().headers["message"] == "closed by an operator"


def test_messages_are_found_read_copied_moved_and_deleted(
    page: Console, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name, other = unique("found"), unique("other")
    for number in range(60):
        rest.send(name, json.dumps({"n": number}), correlation_id=f"c{number}", properties={"n": number})
    page.open(f"messages/{name}")
    page.has("Waiting messages", "Next page")
    assert len(page.cells("Waiting messages")) == 50
    page.press("Next page")
    wait_until(lambda: len(page.cells("Waiting messages")) == 10, "the second page")
    page.fill(filter="n = 33")
    page.press("Search")
    wait_until(lambda: [row[3] for row in page.cells("Waiting messages")] == ["c33"], "the one that is searched")
    page.press("ID:")
    page.has("Headers", "correlation_id\tc33", '{"n": 33}', "Properties", "n\t33")
    page.press("JSON")
    page.has('{\n  "n": 33\n}')
    page.press("Hex")
    page.has("000000  7b 22 6e 22 3a 20 33 33 7d")
    page.press("Copy")
    page.fill(to=other)
    page.press("Yes")
    page.has(f"A copy is in {other}.")
    page.press("Move")
    page.fill(to=other)
    page.press("Yes")
    page.has(f"It is in {other} now.", f"Messages of {name}")
    assert [one["correlation_id"] for one in rest.browse(other)["messages"]] == ["c33", "c33"]
    page.open(f"messages/{other}")
    page.press("ID:")
    page.press("Delete the message")
    page.press("Yes")
    page.has("It is deleted.")
    wait_until(lambda: len(page.cells("Waiting messages")) == 1, "one is left")


def test_the_log_has_what_is_settled(page: Console, rest: RestClient, unique: Callable[[str], str]) -> None:
    name, key = unique("logged"), unique("key")
    rest.send(name, "done", correlation_id=key)
    rest.settle(rest.take(name))
    page.open(f"messages/{name}")
    page.fill(key=key)
    page.press("Search the log")
    page.has("Messages in the log", key)
    page.press("ID:")
    page.has("done", "Text")
    page.press("History")
    page.has("sent to", "acknowledged")


def test_a_history_found_by_the_senders_id_is_searched_for_once(
    page: Console, connect: Connect, unique: Callable[[str], str]
) -> None:
    name, sender_id = unique("sent"), unique("order")
    connect("1.2").send(f"/queue/{name}", "one", **{"amqp-message-id": sender_id})
    page.open(f"messages/{name}")
    page.has("the store's or the sender's")
    page.run("[...document.querySelectorAll('[name=id]')].at(-1).value = arguments[0]; arguments[1]()", sender_id)
    page.press("Show")
    page.has("1 message has the id", "sent to")
    after_samples = """
        const events = new EventSource("/api/events");
        let count = 0;
        events.onmessage = () => {
            if (++count < 5) return;
            events.close();
            const asked = performance.getEntriesByType("resource").map((one) => one.name);
            arguments[0](asked.filter((one) => one.includes("/api/why/message/")).length);
        };
    """
    assert page.run(after_samples) == 1
    page.visit(f"/console/#/why/{sender_id}-2")
    page.has("Why: message", "no message has it from its sender: all of the log below offset")
    page.open(f"why/{sender_id}/8")
    page.has("all of the log below offset")
    assert all("404" in one for one in page.complaints())


def test_a_message_is_sent(page: Console, rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("written")
    page.open(f"send/queue/{name}")
    page.fill(body="two\nlines", properties='{"n": 7}', priority="9", type="letter")
    page.press("Send")
    page.has("Sent as ID:")
    (message,) = rest.browse(name)["messages"]
    assert (message["body"], message["properties"], message["priority"]) == ("two\nlines", {"n": 7}, 9)
    assert (message["type"], message["persistent"]) == ("letter", True)
    page.fill(properties="{")
    page.press("Send")
    page.has("JSON")


def test_dead_letters_are_grouped_and_retried(browser: Any, start_gateway: StartGateway, connect: Connect) -> None:
    gateway = start_gateway(ONE_ATTEMPT)
    client = connect("1.2", gateway)
    for name in ("orders.eu", "it's"):
        for number in range(2):
            client.send(f"/queue/{name}", str(number), persistent="true")
        client.subscribe(f"/queue/{name}", "client-individual", subscription=name)
        for _ in range(2):
            client.nack(client.message())
        client.unsubscribe(name)
    page = Console(browser, gateway.http_url)
    page.open(f"destination/queue/{DLQ}")
    page.has("Depth\n4")
    page.press("Dead letters by cause")
    page.has("All 4 messages of the queue.")
    rows = sorted(page.cells("By cause and origin"), key=lambda row: row[1])
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("exhausted", "/queue/it's", "2"),
        ("exhausted", "/queue/orders.eu", "2"),
    ]
    assert page.complaints() == []
    page.press("Show")
    wait_until(lambda: len(page.cells("Waiting messages")) == 2, "those of one origin")
    page.open(f"dead/{DLQ}")
    page.press("Retry")
    page.press("Yes")
    page.has(f"2 of {DLQ} went back.")
    page.open("")
    page.open(f"dead/{DLQ}")
    page.has("All 2 messages of the queue.")
    browser.get("about:blank")


def test_scheduled_messages_are_cancelled(page: Console, rest: RestClient, unique: Callable[[str], str]) -> None:
    name = unique("scheduled")
    rest.send(name, "later", properties={"AMQ_SCHEDULED_DELAY": LATER_MS})
    page.open("schedule")
    page.has(f"queue://{name}")
    (row,) = [one for one in page.cells("All") if one[1] == f"queue://{name}"]
    assert row[2] == "no"
    page.press("Cancel")
    page.press("Yes")
    page.has("It is cancelled.")


def test_a_durable_subscription_that_was_left_is_deleted(
    page: Console, connect: Connect, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("left")
    client = connect("1.2", headers={"client-id": name})
    client.subscribe(f"/topic/{name}", "client-individual", **{"activemq.subscriptionName": "bills"})
    rest.send(f"topic://{name}", "x")
    page.open("subscriptions")
    page.has("durable subscriptions.")
    page.search(name)
    page.has("1 durable subscriptions.")
    (row,) = page.cells("Durable subscriptions")
    assert row == ["bills", name, f"topic://{name}", "", "", "1", "1", ""]
    client.close()
    page.has("Delete")
    page.press("Delete")
    page.has("Delete the subscription bills with the 1 messages that wait for it?")
    page.press("Yes")
    page.has("bills is deleted.", "0 durable subscriptions.")


def test_prepared_transactions_are_decided_and_forgotten(
    page: Console, shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("xa")
    client = RawOpenWire(shared_gateway, f"ID:{name}-1")
    for number, branch in enumerate(("first", "second"), start=1):
        xid = XaTransactionId(7, f"{name}.{branch}".encode(), b"b")
        client.ask(TransactionInfo(transaction_id=xid, type=BEGIN))
        client.ask(client.message(Destination(QUEUE, f"{name}.{branch}"), "x", number, transaction_id=xid))
        client.ask(TransactionInfo(transaction_id=xid, type=END))
        client.ask(TransactionInfo(transaction_id=xid, type=PREPARE))
    client.close()
    page.open("transactions")
    page.has("2 distributed transactions are prepared")
    first, second = page.cells("Prepared")
    assert (first[3], first[4]) == ("1", "0")
    page.press("Commit")
    page.press("Yes")
    # The list comes anew after the message; until then its first buttons are those of the decided branch.
    page.has(f"{first[0]} is committed.", "1 distributed transactions are prepared")
    page.press("Roll back")
    page.press("Yes")
    page.has(f"{second[0]} is rolled back.", "0 distributed transactions are prepared")
    assert [(one[0], one[3]) for one in page.cells("Decided by operators")] == [
        (first[0], "committed"),
        (second[0], "rolled back"),
    ]
    assert [len(rest.browse(f"{name}.{branch}")["messages"]) for branch in ("first", "second")] == [1, 0]

    def is_left(xids: list[str]) -> bool:
        return [row[0] for row in page.cells("Decided by operators")] == xids

    for one, left in ((first, [second[0]]), (second, [])):
        page.press("Forget")
        page.press("Yes")
        page.has(f"{one[0]} is forgotten.")
        wait_until(partial(is_left, left), "the list anew")
    page.has("0 distributed transactions are prepared")


def test_the_store_the_settings_and_the_charts(
    page: Console, rest: RestClient, shared_gateway: GatewayProcess, unique: Callable[[str], str]
) -> None:
    name = unique("kept")
    rest.send(name, "x")
    page.open("store")
    exports = shared_gateway.get_json("/api/store/readers")["readers"]  # of tests before this one
    page.has("Segments", "it is being written", "Exports and streams" if exports else "Nothing exports the log.")
    page.open("settings")
    page.fill(name=name)
    page.press("Show")
    page.has(f"Settings of queue://{name}", "redelivery.maximum-redeliveries")
    page.press("Reload the configuration")
    page.press("Yes")
    page.has("Applied: nothing has changed.")
    page.open(f"destination/queue/{name}")
    wait_until(lambda: shared_gateway.get_json(f"/api/history?destination={name}")["depth"][-1], "a point of its own")
    page.open("alarms")
    page.open(f"destination/queue/{name}")
    page.has("Depth 1, at most 1")


def test_alarms_and_the_last_event_are_live(page: Console, connect: Connect, browser: Any) -> None:
    page.open("alarms")
    page.has("Alarms\nnone", "Nothing is wrong.", "Connections\n")
    before = page.text()
    connect("1.2")
    wait_until(lambda: page.text() != before, "the number of connections, without a reload")


def test_the_keyboard_is_enough(page: Console, connect: Connect, unique: Callable[[str], str], browser: Any) -> None:
    name = unique("keys")
    connect("1.2").subscribe(f"/queue/{name}")
    page.open("consumers")
    page.has("Consumers", f"queue://{name}")
    browser.switch_to.active_element.send_keys("/")
    browser.switch_to.active_element.send_keys(name)
    page.has("1 to 1 of 1")
    browser.execute_script("document.querySelector('main td a').focus()")
    drawn = browser.execute_script("return document.body.dataset.drawn")
    wait_until(lambda: browser.execute_script("return document.body.dataset.drawn") != drawn, "the next drawing")
    assert browser.execute_script("return document.activeElement.getAttribute('href')").startswith("#/consumer/")
    browser.switch_to.active_element.send_keys("\n")
    page.has("Why: consumer")
    assert browser.execute_script("return document.activeElement.id") == "view", "a reader of the screen begins there"


def test_what_clients_write_stays_text(
    page: Console, connect: Connect, rest: RestClient, browser: Any, unique: Callable[[str], str]
) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    name = unique("evil") + "<svg onload=alert(3) x"
    rest.send(name, evil, correlation_id=evil, type=evil, properties={"evil": evil})
    connect("1.2", headers={"client-id": evil}).subscribe("/queue/" + unique("evil"), subscription=evil)
    (message,) = rest.browse(name)["messages"]
    written = quote(name, safe="")
    for view, text in (
        ("connections", evil),
        ("consumers", evil),
        (f"messages/{written}", evil),
        (f"message/{quote(message['id'])}/{written}", evil),
        (f"why/{quote(message['id'])}", name),
        (f"settings/{written}", name),
        (f"destination/queue/{written}", name),
        (f"send/queue/{written}", name),
    ):
        page.open(view)
        page.has(text)
        assert browser.execute_script("return document.querySelectorAll('img, body script, svg[onload]').length") == 0


@pytest.mark.parametrize("is_dark", [False, True])
def test_axe_finds_nothing_serious(
    page: Console, browser: Any, javascript: Path, rest: RestClient, unique: Callable[[str], str], is_dark: bool
) -> None:
    axe = (javascript / "node_modules" / "axe-core" / "axe.min.js").read_text()
    name = unique("seen")
    rest.send(name, "x", properties={"AMQ_SCHEDULED_DELAY": LATER_MS})
    rest.send(name, "x", properties={"n": 1})
    (message,) = rest.browse(name)["messages"]
    views = [
        "",
        "connections",
        "consumers",
        "producers",
        "schedule",
        "transactions",
        "subscriptions",
        "store",
        "alarms",
        f"settings/{name}",
    ]
    views += [f"destination/queue/{name}", f"messages/{name}", f"dead/{DLQ}", f"send/queue/{name}"]
    views += [f"message/{quote(message['id'])}/{name}", f"why/{quote(message['id'])}"]
    scheme = "dark" if is_dark else "light"
    emulated = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)
    for view in views:
        page.open(view)
        wait_until(lambda: browser.execute_script("return document.querySelector('main h2') !== null"), view)
        browser.execute_script(axe)
        found = page.run(SERIOUS)
        assert [one for one in found if one[0] in ("serious", "critical")] == [], view
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_narrow_screen_does_not_scroll_sideways(page: Console, browser: Any, rest: RestClient) -> None:
    rest.send("narrow." + "n" * 80, "x")
    browser.set_window_size(500, 800)  # chromium has no narrower window; the view is made narrower below
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": False}
    )
    for view in ("", "connections", "store", "destination/queue/narrow." + "n" * 80):
        page.open(view)
        wait_until(lambda: browser.execute_script("return document.querySelector('main table') !== null"), view)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360, view
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.set_window_size(1200, 900)
