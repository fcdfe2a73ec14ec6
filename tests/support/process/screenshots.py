"""The pictures of the console in the docs: ``scripts/screenshots [DIRECTORY]``.

A gateway gets a little shop as traffic for a minute and a half; Chromium shows the console, and each view is saved.
"""

from __future__ import annotations

import base64
import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import quote

from tests.support.process.chromium import NoBrowser, start_chromium
from tests.support.process.console_page import Console
from tests.support.process.gateway_process import ROOT, GatewayProcess
from tests.support.process.hurried_gateway import HOUR_S
from tests.support.process.rest import RestClient
from tests.support.process.stomp_py import CLIENTS, Client

IMAGES: Final = ROOT / "docs" / "images"
PICTURES: Final = ("destinations", "destinations-dark", "destination", "consumer", "message", "dead-letters", "store")
WIDTH: Final = 1080
MOST_HEIGHT: Final = 760
ROUND_S: Final = 0.25
QUALITY: Final = 70  # of 100
CONFIG: Final = """\
addresses:
  - match: "orders.>"
    redelivery: {maximum-redeliveries: 1, redelivery-delay-ms: 100ms}
    max-size-bytes: 8MiB
  - match: mails
    max-size-messages: 40
    address-full-policy: BLOCK
"""


class Shop:
    """Traffic that has ups and downs: orders and invoices are consumed, mails are not, some orders fail."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._rest = RestClient(gateway)
        self._sender = self._client(gateway, "web-shop")
        self._mailer = self._client(gateway, "mailer")
        self._billing = self._client(gateway, "billing")
        self._billing.subscribe("/queue/orders.eu", "client-individual", subscription="billing")
        self._reports = self._client(gateway, "reports")
        self._reports.subscribe(
            "/queue/orders.us", "client-individual", subscription="reports", **{"activemq.prefetchSize": "20"}
        )
        self._screens = [self._client(gateway, f"screen-{number}") for number in (1, 2, 3)]
        for screen in self._screens:
            screen.subscribe("/topic/prices", subscription="prices")
        self._count = 0

    @staticmethod
    def _client(gateway: GatewayProcess, name: str) -> Client:
        return Client(gateway, "1.2").connect(**{"client-id": name})

    def trade(self, closing: Event) -> None:
        """Trade until closing time."""
        self._rest.send("reminders", "pay", properties={"AMQ_SCHEDULED_DELAY": 3_600_000})
        began = time.monotonic()
        while not closing.wait(ROUND_S):
            passed = time.monotonic() - began
            for _ in range(6 + round(3 * math.sin(passed / 9) + 2 * math.sin(passed / 3.1))):
                self._order()
            self._take(part=min(1.0, 0.75 + 0.5 * math.sin(passed / 14)))

    def _order(self) -> None:
        self._count += 1
        number = self._count
        body = json.dumps({"order": number, "customer": f"C-{number % 17}", "total": 20 + number * 7 % 480})
        headers = {"persistent": "true", "correlation-id": f"order-{number}", "total": str(20 + number * 7 % 480)}
        self._sender.send("/queue/orders.eu", body, content_type="application/json", **headers)
        if number % 3 == 0:
            self._sender.send("/queue/orders.us", body, content_type="application/json", **headers)
        if number % 5 == 0:
            mail = f"Your order {number} is on its way."  # sent without a wait for its receipt: the queue becomes full
            self._mailer.connection.send("/queue/mails", mail, headers={"persistent": "true"})
        self._sender.send("/topic/prices", str(100 + number % 13))

    def _take(self, part: float) -> None:
        """Acknowledge a part of what the gateway has handed to billing; every thirtieth order fails."""
        waiting = self._billing.inbox.messages
        for _ in range(math.ceil(waiting.qsize() * part)):
            order = waiting.get()
            number = json.loads(order.body)["order"]
            if number % 30 == 0:
                reason = "card refused" if number % 60 else "no such customer"
                self._billing.nack(order, reason=reason)
            else:
                self._billing.ack(order)

    def leave(self) -> None:
        self._rest.close()
        while CLIENTS:
            CLIENTS.pop().end_thread()


class Camera:
    def __init__(self, browser: Any, gateway: GatewayProcess, into: Path) -> None:
        self._browser = browser
        self._page = Console(browser, gateway.http_url)
        self._into = into

    def take(self, name: str, view: str, *texts: str, then: Callable[[Console], None] | None = None) -> None:
        """Save the picture of a view once it shows these texts."""
        self._page.open(view)
        self._page.has(*texts)
        if then is not None:
            then(self._page)
        height = self._browser.execute_script("return document.documentElement.scrollHeight")
        self._size(min(height, MOST_HEIGHT))
        picture = self._browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
        octets = base64.b64decode(picture["data"])
        (self._into / f"{name}.webp").write_bytes(octets)
        print(f"{name}.webp: {len(octets) // 1024} KiB", file=sys.stderr)
        self._size(MOST_HEIGHT)

    def theme(self, name: str) -> None:
        emulated = {"features": [{"name": "prefers-color-scheme", "value": name}]}
        self._browser.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)

    def _size(self, height: int) -> None:
        size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def take_all(browser: Any, gateway: GatewayProcess, into: Path) -> None:
    consumers = gateway.get_json("/api/consumers?destination=queue://orders.us")["consumers"]
    waiting = gateway.get_json(f"/api/destinations/{quote('orders.us', safe='')}/messages?limit=1")["messages"]
    camera = Camera(browser, gateway, into)
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    camera.theme("light")
    camera.take("destinations", "", "orders.eu", "mails", "accepts messages")
    camera.theme("dark")
    camera.take("destinations-dark", "", "orders.eu", "mails", "accepts messages")
    camera.theme("light")
    camera.take("destination", "destination/queue/orders.eu", "Settings in force", "Depth")
    camera.take("consumer", f"consumer/{consumers[0]['consumer_id']}", "Why: consumer", "in flight")
    message = f"message/{quote(waiting[0]['id'], safe='')}/orders.us"
    camera.take("message", message, "Headers", "Properties", then=lambda page: page.press("JSON"))
    camera.take("dead-letters", "dead/ActiveMQ.DLQ", "By cause and origin", "Retry")
    camera.take("store", "store", "Segments")


def main(words: list[str]) -> int:
    into = Path(words[0]) if words else IMAGES
    into.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="screenshots-"))
    (work / "penstock.yaml").write_text(CONFIG)
    gateway = GatewayProcess(Path("data"), [Path("penstock.yaml")], work / "log")
    gateway.module, gateway.is_forked, gateway.directory = "tests.support.process.hurried_gateway", False, work
    browser = None
    try:
        browser = start_chromium(work / "chromium")
        gateway.start()
        shop = Shop(gateway)
        closing = Event()
        trading = Thread(target=shop.trade, args=(closing,))
        trading.start()
        try:
            time.sleep(HOUR_S)
            take_all(browser, gateway, into)
        finally:
            closing.set()
            trading.join()
            shop.leave()
    except NoBrowser as error:
        print(f"scripts/screenshots: {error}", file=sys.stderr)
        return 1
    finally:
        if browser is not None:
            browser.quit()
        gateway.dispose()
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
