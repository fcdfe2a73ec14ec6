"""A shop's orders of one morning, in a queue for each region; busiest at half past eight."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from examples.shared.morning import Client, Morning

OPENING = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)
REGIONS = ("eu", "us", "asia")
MINUTES = 60


@dataclass(frozen=True)
class Order:
    region: str
    sent: datetime
    amount: float


def orders_between(first: int, last: int) -> list[Order]:
    """Return the orders from one minute of the morning to below another one, always the same."""
    orders = []
    for minute in range(first, last):
        chance = random.Random(minute)
        busy = 1 + math.sin(math.pi * minute / MINUTES)
        for region, share in zip(REGIONS, (8, 5, 3), strict=True):
            for _ in range(round(share * busy * chance.uniform(0.8, 1.2))):
                sent = OPENING + timedelta(minutes=minute, milliseconds=chance.randrange(60_000))
                orders.append(Order(region, sent, chance.randrange(500, 20_000) / 100))
    return sorted(orders, key=lambda order: order.sent)


def send(morning: Morning, shop: Client, orders: list[Order]) -> None:
    """Send orders, each at its time."""
    for order in orders:
        morning.at(order.sent)
        shop.send(f"/queue/orders.{order.region}", json.dumps({"amount": order.amount, "currency": "EUR"}))
