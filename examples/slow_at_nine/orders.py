"""A morning of orders: two workers bill them, and from nine o'clock the second one is slow for ten minutes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from examples.shared.morning import LIMIT_S, Client, Morning

OPENING = datetime(2026, 11, 24, 8, 50, tzinfo=UTC)
CLOSING = datetime(2026, 11, 24, 9, 25, tzinfo=UTC)
SLOW_FROM = datetime(2026, 11, 24, 9, 0, tzinfo=UTC)
SLOW_TO = datetime(2026, 11, 24, 9, 10, tzinfo=UTC)
QUEUE = "/queue/orders"
WORKERS = ("billing-1", "billing-2")
PREFETCH = 10
ORDER_EVERY_S = 5
WORK_S = 4
SLOW_WORK_S = 40


@dataclass(frozen=True)
class Billed:
    """An order as its worker saw it."""

    order: int
    worker: str
    sent: datetime
    done: datetime


@dataclass
class Worker:
    """Bills one order at a time.  waiting: what it holds beside that."""

    client: Client
    name: str
    waiting: list[Any] = field(default_factory=list)
    order: Any = None
    done: datetime = OPENING

    def work_s(self, now: datetime) -> int:
        is_slow = self.name == "billing-2" and SLOW_FROM <= now < SLOW_TO
        return SLOW_WORK_S if is_slow else WORK_S


def bill_orders(morning: Morning) -> list[Billed]:
    """Let the morning pass, second by second; return what the workers did."""
    morning.at(OPENING)
    shop = morning.connect("shop")
    workers = {name: Worker(morning.connect(name), name) for name in WORKERS}
    for worker in workers.values():
        worker.client.subscribe(QUEUE, PREFETCH)
    billed: list[Billed] = []
    sent: list[datetime] = []
    came = 0
    for second in range(int((CLOSING - OPENING).total_seconds())):
        now = OPENING + timedelta(seconds=second)
        morning.at(now)
        for worker in workers.values():
            if worker.order is not None and now >= worker.done:
                worker.client.ack(worker.order)
                number = json.loads(worker.order.body)["order"]
                billed.append(Billed(number, worker.name, sent[number], now))
                worker.order = None
        if second % ORDER_EVERY_S == 0:
            shop.send(QUEUE, json.dumps({"order": len(sent), "amount": 10 + len(sent) % 90}))
            sent.append(now)
        while came < min(len(sent), len(billed) + len(WORKERS) * PREFETCH):
            name, message = morning.inbox.get(timeout=LIMIT_S)
            workers[name].waiting.append(message)
            came += 1
        for worker in workers.values():
            if worker.order is None and worker.waiting:
                worker.order = worker.waiting.pop(0)
                worker.done = now + timedelta(seconds=worker.work_s(now))
    return billed
