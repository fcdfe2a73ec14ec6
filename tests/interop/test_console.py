"""The web console in Chromium, against the real process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from config.scram import hash_password
from protocols.stomp.codec.frames import SEND
from tests.support.process import raw_stomp
from tests.support.process.console_page import Console
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import Connect
from tests.support.process.waiting import wait_until

SVG = "http://www.w3.org/2000/svg"  # a name, which nobody asks for
FULL = "addresses:\n  - match: full\n    max-size-bytes: 1KiB\n    address-full-policy: BLOCK\n"


@pytest.fixture
def console(browser: Any, start_gateway: StartGateway) -> Iterator[tuple[Console, GatewayProcess]]:
    gateway = start_gateway(FULL)
    console = Console(browser, gateway.http_url)
    console.complaints()
    yield console, gateway
    assert console.complaints() == []


def test_destinations_are_found_sorted_and_paged(console: tuple[Console, GatewayProcess], connect: Connect) -> None:
    page, gateway = console
    client = connect("1.2", gateway)
    for number in range(60):
        for _ in range(1 + (number == 33) * 4):
            client.send(f"/queue/orders.{number:02}", "x")
    page.open()
    page.has("1 to 50 of 60", "accepts messages", "orders.33")
    wait_until(lambda: page.column(1)[0] == "orders.33", "the deepest comes first")
    page.press("Next")
    page.has("51 to 60 of 60")
    page.press("Name")
    page.press("Name")
    wait_until(lambda: page.column(1)[:2] == ["orders.00", "orders.01"], "names in order")
    page.search("S.4")
    page.has("1 to 10 of 10")
    assert page.column(1) == [f"orders.4{number}" for number in range(10)]
    client.send("/queue/orders.44", "one more")
    wait_until(lambda: page.column(3)[4] == "2", "the new depth, without a reload")


def test_a_destination_shows_its_consumers_and_the_origin_of_settings(
    console: tuple[Console, GatewayProcess], connect: Connect
) -> None:
    page, gateway = console
    client = connect("1.2", gateway)
    client.subscribe("/queue/full", subscription="mine", **{"activemq.prefetchSize": "7"})
    page.open()
    page.press("full")
    page.has("queue full", "0 of 7 in flight", "max-size-bytes\t1KiB", "BLOCK")
    assert "config:" in page.text(), "a setting names its file and line"
    page.press("1")
    page.has("Why: consumer 1", "mine")


def test_purge_and_delete_ask_first(console: tuple[Console, GatewayProcess], connect: Connect) -> None:
    page, gateway = console
    client = connect("1.2", gateway)
    for _ in range(3):
        client.send("/queue/old", "x")
    page.open("destination/queue/old")
    page.has("Depth\n3")
    page.press("Purge")
    page.press("No")
    page.press("Purge")
    page.has("Drop all messages that wait in the queue old?")
    assert gateway.get_json("/api/stat")["destinations"][0]["depth"] == 3
    page.press("Yes")
    page.has("Depth\n0", "The purge of old has begun.")
    page.press("Delete")
    page.press("Yes")
    page.has("0 to 0 of 0")
    assert gateway.get_json("/api/stat")["destinations"] == []


def test_a_queue_is_paused_and_resumed(console: tuple[Console, GatewayProcess], connect: Connect) -> None:
    page, gateway = console
    client = connect("1.2", gateway)
    client.subscribe("/queue/orders")
    page.open("destination/queue/orders")
    page.has("State\nopen")
    page.press("Pause")
    page.press("Yes")
    page.has("State\npaused", "orders is paused.", "paused by address 127.0.0.1")
    client.send("/queue/orders", "later")
    page.has("Depth\n1")
    assert gateway.get_json("/api/stat")["destinations"][0]["delivered"] == 0
    page.press("Resume")
    page.press("Yes")
    assert client.message().body == "later"
    page.has("State\nopen", "orders is resumed.")


def test_a_waiting_producer_is_explained(console: tuple[Console, GatewayProcess]) -> None:
    page, gateway = console
    with closing(raw_stomp.client(gateway)) as client:
        for _ in range(20):
            client.send(SEND, [("destination", "/queue/full"), ("persistent", "true")], b"x" * 200)
        client.flush()
        page.open("producers")
        page.has("Producers that wait", "full")
        page.press("1")
        page.has("Connection 1", "1024")


def test_names_of_clients_are_text(console: tuple[Console, GatewayProcess], connect: Connect) -> None:
    page, gateway = console
    name = "<img src=x onerror=alert(1)>"
    connect("1.2", gateway).subscribe("/topic/t", subscription=name)
    page.open("consumers")
    page.has(name)
    page.open("destination/queue/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    page.has("<img src=x", "destination")
    page.open()
    page.complaints()  # the name is no name of a destination: those answers are errors by intention


def test_with_users_the_page_asks_for_a_login(browser: Any, start_gateway: StartGateway) -> None:
    verifiers = "".join(f"\n      - {one}" for one in hash_password("secret", 4096))
    gateway = start_gateway(f"users:\n  alice:\n    verifiers:{verifiers}\n")
    page = Console(browser, gateway.http_url)
    page.open()
    page.has("Log in", "Password")
    page.fill(login="alice", passcode="wrong")
    page.press("Log in")
    page.has("wrong login or password")
    page.fill(passcode="secret")
    page.press("Log in")
    page.has("accepts messages", "Log out alice")
    page.press("Alarms")
    page.has("Nothing is wrong.")
    page.open("destination/queue/mine")
    page.has("It does not exist now.")
    page.open("send/queue/mine")  # a page loaded anew has the session still
    page.fill(body="x")
    page.press("Send")
    page.has("Sent as ID:")
    page.press("Log out alice")
    page.has("Password")
    page.complaints()  # answers of 401


def test_credentials_in_the_address_do_not_matter(browser: Any, start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    page = Console(browser, gateway.http_url.replace("http://", "http://alice:secret@"))
    page.open()
    page.has("accepts messages")
    assert page.complaints() == []


def test_the_page_is_whole_in_a_file() -> None:
    """No request to another host: the policy forbids them, and no file names one."""
    static = Path(__file__).parents[2] / "gateway" / "web" / "static"
    for file in static.iterdir():
        text = file.read_text().replace(SVG, "")
        assert "http:" not in text and "https:" not in text, file
