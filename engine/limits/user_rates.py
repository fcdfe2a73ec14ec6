"""How fast one user may send, over all its connections: messages and octets a second.

What is too much waits at the gate ``user-rate``.  A message is sent while anything of its second is left, so one may
exceed the octets; the seconds after it pay for that.  A transaction is sent whole likewise.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.window_limits import PERIOD_MS
from engine.limits.parked_producers import ProducerWaits, UserRatesBase
from engine.open_transaction import Transaction
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.message import Message

MESSAGES: Final = "limits.messages-per-second-per-user"
BYTES: Final = "limits.bytes-per-second-per-user"
KEPT: Final = 1_000  # budgets of users that are kept without a look at whether they are still needed


class RateBudget:
    """What a holder may still send in this second; below zero, later seconds pay.

    refill_ms: monotonic, when the next second begins.  waiting: its clients at the gate, by number; the longest first.
    is_armed: a timer is set for them.
    """

    __slots__ = ("messages", "octets", "refill_ms", "waiting", "is_armed")

    def __init__(self, messages: int, octets: int, refill_ms: int) -> None:
        self.messages = messages
        self.octets = octets
        self.refill_ms = refill_ms
        self.waiting: dict[int, None] = {}
        self.is_armed = False


@mypyc_attr(allow_interpreted_subclasses=True)
class UserRates(UserRatesBase):
    """What the broker itself sends has no rate.  Where logins are not checked, addresses have rates.

    messages, octets: a second, 0 for no limit.  budgets: holder -> its budget, for those that have sent lately.
    """

    __slots__ = ("_context", "_waits", "_clients", "messages", "octets", "budgets", "_prune_at", "_armed", "_next_key")

    def __init__(
        self, context: Context, waits: ProducerWaits, clients: dict[int, Client], messages: int, octets: int
    ) -> None:
        self._context = context
        self._waits = waits
        self._clients = clients
        self.messages = messages
        self.octets = octets
        self.budgets: dict[str, RateBudget] = {}
        self._prune_at = KEPT
        self._armed: dict[int, RateBudget] = {}
        self._next_key = 1

    def admit_sender(self) -> bool:
        """Say whether the client whose input is being processed may send; call ``charge_sender`` for what it sends."""
        holder = self._sender()
        return not holder or self.may_send(holder)

    def charge_sender(self, message: Message) -> None:
        holder = self._sender()
        if holder:
            self.charge(holder, 1, message.size)

    def take(self, transaction: Transaction) -> tuple[int, Queue | Topic | None]:
        """Charge a transaction, or return the gate and a destination of it."""
        client = transaction.client
        count = len(transaction.sends) + transaction.scheduled_count
        if client is None or not client.holder or not count:
            return gates.OPEN, None
        if not self.may_send(client.holder):
            if transaction.sends:
                return gates.USER_RATE, transaction.sends[0][0]
            return gates.USER_RATE, transaction.scheduled[0][0].parts[0]
        octets = sum([message.size for _, message in transaction.sends])
        octets += sum([message.size for _, message in transaction.scheduled])
        self.charge(client.holder, count, octets)
        return gates.OPEN, None

    def may_send(self, holder: str) -> bool:
        """Say whether anything of this second is left; call ``charge`` for what is sent then."""
        return self._has_any(self._budget(holder))

    def charge(self, holder: str, count: int, octets: int) -> None:
        budget = self._budget(holder)
        if self.messages:
            budget.messages -= count
        if self.octets:
            budget.octets -= octets

    def wait(self, client: Client) -> None:
        budget = self._budget(client.holder)
        budget.waiting[client.client_number] = None
        self._arm(budget)

    def forget(self, client: Client) -> None:
        budget = self.budgets.get(client.holder)
        if budget is not None:
            budget.waiting.pop(client.client_number, None)

    def describe(self, holder: str) -> str:
        limits = []
        if self.messages:
            limits.append(f"{self.messages} messages a second ({MESSAGES})")
        if self.octets:
            limits.append(f"{self.octets} octets a second ({BYTES})")
        return f"{holder} may send {' and '.join(limits)}, over all its connections"

    def timer_fired(self, key: int) -> None:
        budget = self._armed.pop(key)
        budget.is_armed = False
        while budget.waiting:
            self._refill(budget)
            if not self._has_any(budget):
                break
            number = next(iter(budget.waiting))
            del budget.waiting[number]  # whoever must wait again comes behind the others
            self._waits.admit(number)
        self._arm(budget)

    # -- the steps

    def _sender(self) -> str:
        """Return the holder whose input is being processed, "" for the broker itself."""
        client = self._clients.get(self._context.sender)
        return "" if client is None else client.holder

    def _budget(self, holder: str) -> RateBudget:
        budget = self.budgets.get(holder)
        if budget is None:
            if len(self.budgets) >= self._prune_at:
                self._prune()
            refill_ms = self._context.clock.monotonic_ms() + PERIOD_MS
            budget = self.budgets[holder] = RateBudget(self.messages, self.octets, refill_ms)
        else:
            self._refill(budget)
        return budget

    def _refill(self, budget: RateBudget) -> None:
        now_ms = self._context.clock.monotonic_ms()
        if now_ms >= budget.refill_ms:
            seconds = 1 + (now_ms - budget.refill_ms) // PERIOD_MS
            budget.messages = min(self.messages, budget.messages + seconds * self.messages)
            budget.octets = min(self.octets, budget.octets + seconds * self.octets)
            budget.refill_ms += seconds * PERIOD_MS

    def _has_any(self, budget: RateBudget) -> bool:
        return (not self.messages or budget.messages > 0) and (not self.octets or budget.octets > 0)

    def _arm(self, budget: RateBudget) -> None:
        """Set the timer for the second in which something is left again."""
        if budget.is_armed or not budget.waiting:
            return
        seconds = 1
        if self.messages:
            seconds = max(seconds, -budget.messages // self.messages + 1)
        if self.octets:
            seconds = max(seconds, -budget.octets // self.octets + 1)
        budget.is_armed = True
        self._armed[self._next_key] = budget
        self._context.timers.call_at(budget.refill_ms + (seconds - 1) * PERIOD_MS, self, self._next_key)
        self._next_key += 1

    def _prune(self) -> None:
        """Forget budgets that are whole again, as that of an unknown holder is."""
        for holder, budget in list(self.budgets.items()):
            self._refill(budget)
            if not budget.waiting and (budget.messages, budget.octets) == (self.messages, self.octets):
                del self.budgets[holder]
        self._prune_at = max(KEPT, 2 * len(self.budgets))
