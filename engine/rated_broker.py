"""The engine where users have a rate of sending; a class of its own, so that nobody else pays for the question."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.broker_options import BrokerOptions
from engine.limits.user_rates import UserRates
from engine.open_transaction import Transaction
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.timers import Timers
from engine.sources.composite import Destination, Target
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class RatedBroker(Broker):
    """rates: of the users, or of addresses where logins are not checked.  What the broker itself sends has none."""

    __slots__ = ("rates",)

    def __init__(
        self,
        store: Store,
        clock: Clock,
        timers: Timers,
        addresses: AddressMatcher,
        memory_limit_bytes: int,
        options: BrokerOptions,
    ) -> None:
        super().__init__(store, clock, timers, addresses, memory_limit_bytes, options)
        limits = options.user_limits
        waits = self.producer_gates.waits
        self.rates = UserRates(self.context, waits, limits.messages_per_second, limits.bytes_per_second)
        waits.user_rates = self.rates

    def send(self, destination: Destination, message: Message) -> int:
        holder = self._sender()
        if not holder:
            return super().send(destination, message)
        if not self.rates.may_send(holder):
            return gates.USER_RATE
        gate = super().send(destination, message)
        if gate == gates.OPEN:
            self.rates.charge(holder, 1, message.size)
        return gate

    def send_granted(self, destination: Target, message: Message) -> int:
        holder = self._sender()
        if not holder:
            return super().send_granted(destination, message)
        if not self.rates.may_send(holder):
            return gates.USER_RATE
        gate = super().send_granted(destination, message)
        if gate == gates.OPEN:
            self.rates.charge(holder, 1, message.size)
        return gate

    def commit_refusal(self, transaction: Transaction) -> tuple[int, Queue | Topic | None]:
        """An admitted transaction is charged here, because it is committed or prepared next."""
        gate, destination = super().commit_refusal(transaction)
        client = transaction.client
        count = len(transaction.sends) + transaction.scheduled_count
        if gate != gates.OPEN or client is None or not client.holder or not count:
            return gate, destination
        if not self.rates.may_send(client.holder):
            if transaction.sends:
                return gates.USER_RATE, transaction.sends[0][0]
            return gates.USER_RATE, transaction.scheduled[0][0].parts[0]
        octets = sum([message.size for _, message in transaction.sends])
        octets += sum([message.size for _, message in transaction.scheduled])
        self.rates.charge(client.holder, count, octets)
        return gates.OPEN, None

    def _sender(self) -> str:
        """Return the holder whose input is being processed, "" for the broker itself."""
        client = self.clients.get(self.context.sender)
        return "" if client is None else client.holder
