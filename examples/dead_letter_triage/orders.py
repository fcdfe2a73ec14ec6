"""Orders of which some become dead letters: a worker cannot read them, or nobody takes them in time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from examples.shared.morning import LIMIT_S, Client, Morning

NOON = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
EVENING = datetime(2026, 11, 24, 18, 0, tzinfo=UTC)
QUEUES = ("orders.eu", "orders.us", "invoices")
PREFETCH = 10
# A message is tried twice.  Messages that expire are kept as dead letters, too.
CONFIGURATION = """\
addresses:
  - match: ">"
    redelivery: {maximum-redeliveries: 1, initial-redelivery-delay-ms: 0, redelivery-delay-ms: 0}
    dead-letters: {process-expired: true}
"""


def body_of(queue: str, number: int) -> str:
    """Return an order; in Europe some have a comma in the amount, everywhere some are cut off."""
    text = json.dumps({"number": number, "amount": number * 37 % 900 + 0.25})
    if queue == "orders.eu" and number % 4 == 0:
        return text.replace(".25", ",25")
    return text[: len(text) // 2] if number % 10 == 7 else text


def expires(queue: str, number: int) -> bool:
    """Return whether an order is to be taken within a minute."""
    return queue == "orders.us" and number % 5 == 0


def is_readable(body: str) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def send_orders(morning: Morning, count: int) -> int:
    """Send ``count`` orders to each queue at noon; return how many deliveries to a worker come of them."""
    shop = morning.connect("shop")
    deliveries = 0
    for number in range(count):
        now = NOON + timedelta(seconds=number)
        morning.at(now)
        for queue in QUEUES:
            body = body_of(queue, number)
            if expires(queue, number):
                end = now + timedelta(minutes=1)
                shop.send(f"/queue/{queue}", body, expires=str(round(end.timestamp() * 1000)))
            else:
                shop.send(f"/queue/{queue}", body)
                deliveries += 1 if is_readable(body) else 2
    return deliveries


def begin_work(morning: Morning) -> Client:
    """Let a worker take orders, in the evening."""
    morning.at(EVENING)
    worker = morning.connect("worker")
    for queue in QUEUES:
        worker.subscribe(f"/queue/{queue}", PREFETCH)
    return worker


def work(morning: Morning, worker: Client, deliveries: int) -> None:
    """Let the worker handle what comes: it refuses what it cannot read."""
    for _ in range(deliveries):
        _, message = morning.inbox.get(timeout=LIMIT_S)
        if is_readable(message.body):
            worker.ack(message)
        else:
            worker.nack(message)
