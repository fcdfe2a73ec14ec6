"""Decides which producers may send now, and which wait and why.

engine.limits.parked_producers keeps the connections that wait; engine.backlog.address_account counts how full each
address is; engine.limits.gate_words says what producers wait for.

Source: docs/reference/semantics.md, "Full addresses".
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from mypy_extensions import mypyc_attr

from engine.backlog.address_account import ACTION_NAMES, BLOCK, DROP, FAIL, Account, Accounts, Gates
from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.unsettled_memory import UnsettledMemory
from engine.consumers.user_quota import UserLimits
from engine.limits.parked_producers import ProducerWaits, Wait
from engine.limits.pending_memory import PendingMemory
from engine.limits.user_rates import UserRates
from engine.open_transaction import Transaction
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.topics.late_memory import LateMemory
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.destination import is_topic
from engine.values.errors import AddressFull
from engine.values.message import PERSISTENT, Message


@dataclass(frozen=True, slots=True)
class GlobalLimits:
    """Limits of what all addresses with BLOCK, DROP or FAIL hold together; -1 for no limit."""

    max_bytes: int = -1
    max_messages: int = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class OwnSender:
    """A part of the broker that sends, and waits at gates like a client."""

    @abstractmethod
    def gates_opened(self) -> bool:
        """Send, in this turn, what may pass the gates now; return whether there was any."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StopBase:
    """The gateway stops, which pauses most producers (engine.features.last_settlements)."""

    @abstractmethod
    def holds_back(self) -> bool:
        """Say whether the client whose input is being processed may send nothing more."""


class ProducerGates(Gates):
    """Gates for producers.

    is_blocked: some gate may be shut; only then does a message look for its gate.
    is_memory_shut: the budget was full and has not eased since.
    disk_reason: why nothing more may be written (engine.limits.disk_watch), "" if it may.
    disk_warning: a warning about the disk for the operator.
    accounts: of the addresses with a limit.
    waits: clients that wait at gates.
    own_senders: parts of the broker that wait at gates.  is_own_next: they come before the clients.
    unsettled: the memory of unsettled messages, by holder.  pending_memory: of what waits in subscriptions.
    late_memory: of what is committed to topics and not published yet.
    user_rates: None where users have no rate.
    stop: None until the gateway stops.
    """

    __slots__ = (
        "store",
        "memory",
        "clock",
        "accounts",
        "is_blocked",
        "is_memory_shut",
        "disk_reason",
        "disk_warning",
        "waits",
        "own_senders",
        "is_own_next",
        "agenda",
        "unsettled",
        "pending_memory",
        "late_memory",
        "user_rates",
        "stop",
    )

    def __init__(
        self,
        context: Context,
        limits: GlobalLimits,
        user_limits: UserLimits,
        clients: dict[int, Client],
        observers: list[Observer],
        unsettled: UnsettledMemory,
        pending_memory: PendingMemory,
    ) -> None:
        memory = context.memory
        self.store = context.store
        self.memory = memory
        self.clock = context.clock
        self.accounts = Accounts(memory, self, limits.max_bytes, limits.max_messages)
        self.is_blocked = False
        self.is_memory_shut = False
        self.disk_reason = ""
        self.disk_warning = ""
        self.waits = ProducerWaits(context, observers)
        self.own_senders: list[OwnSender] = []
        self.agenda = context.agenda
        self.is_own_next = False
        self.unsettled = unsettled
        self.pending_memory = pending_memory
        self.late_memory = LateMemory(user_limits.late_bytes, self)
        self.user_rates: UserRates | None = None
        if user_limits.has_rates():
            messages, octets = user_limits.messages_per_second, user_limits.bytes_per_second
            self.user_rates = self.waits.user_rates = UserRates(context, self.waits, clients, messages, octets)
        self.stop: StopBase | None = None

    def block(self) -> None:
        self.is_blocked = True
        self.agenda.is_open = True

    # -- checks

    def refusal(self, destination: Queue | Topic, message: Message) -> int:
        """Return the gate that holds ``message`` back now, gates.OPEN for none.

        gates.DISCARDED: no gate, but the address is full and its policy is to accept and drop the message; the caller
        then calls ``count_dropped``.
        Raises: AddressFull if the policy is to fail.
        """
        if not self.is_blocked:
            return gates.OPEN
        account = destination.account
        if account is not None and (account.is_shut or account.is_over()):
            return self._refuse(account)
        gate = self.machine_gate(destination, message)
        if gate == gates.OPEN and self.waits.retrying:  # one gets through, and the next waits anew
            for line in (gates.ADDRESS_FULL, gates.MEMORY):
                self.waits.retrying.pop((line, destination.uri()), None)
        return gate

    def count_dropped(self, destination: Queue | Topic) -> None:
        """Count a message that was accepted and dropped because its address is full."""
        assert destination.account is not None, "only an address with a limit drops"
        destination.account.dropped_count += 1

    def machine_gate(self, destination: Queue | Topic, message: Message) -> int:
        """Return the gate of the stop, the disk or the memory, whatever the address."""
        is_logged = destination.is_logged and (message.flags & PERSISTENT or destination.settings.log_non_persistent)
        gate = self.log_gate(bool(is_logged))
        if gate != gates.OPEN:
            return gate
        if self.memory.is_full():
            self.is_memory_shut = True  # until it is eased, so that waiting producers do not starve behind newcomers
        if self.is_memory_shut and (not is_logged or is_topic(destination.kind)):
            return gates.MEMORY
        return gates.OPEN

    def own_refusal(self, destination: Queue | Topic, message: Message) -> int:
        """Return the same for what the broker sends on its own (the schedule).

        No client could get an error, so if the policy is to fail, the message waits.
        """
        account = destination.account
        if account is None or not (account.is_shut or account.is_over()):
            return self.machine_gate(destination, message)
        if not account.is_full:
            self.accounts.fill(account)
        if account.action == DROP:
            return gates.DISCARDED
        if account.action == BLOCK:
            account.is_shut = True
        return gates.ADDRESS_FULL

    def commit_refusal(self, transaction: Transaction) -> tuple[int, Queue | Topic | None]:
        """Return the gate that holds the COMMIT back, and the destination it is about.

        A transaction meets the limits here, whole or not at all.  What it acknowledges is subtracted first.  If it
        settles messages of an address to which it sends, that address does not hold it back: nothing else might ever
        make room.
        Raises: AddressFull if the policy is to fail; the caller then aborts the transaction.
        """
        if not self.is_blocked:
            return gates.OPEN, None
        settled: set[int] = set()
        settled_bytes = 0
        settled_count = 0
        for delivery in transaction.accepted:
            message = delivery.message
            settled.add(message.destination_id)
            if message.destination_id in self.accounts.by_id:
                settled_bytes += message.size
                settled_count += 1
        settled.update(delivery.message.destination_id for delivery, _ in transaction.refused)
        must_wait = transaction.client is not None and transaction.client.holder in self.late_memory.over
        for destination, message in transaction.sends:
            if must_wait and isinstance(destination, Topic) and destination.has_readers():
                return gates.PUBLISHING, destination
            account = destination.account
            if (
                account is not None
                and account.action != DROP
                and destination.destination_id not in settled
                and account.is_over(settled_bytes, settled_count)
            ):
                return self._refuse(account), destination
            gate = self.machine_gate(destination, message)
            if gate != gates.OPEN:
                return gate, destination
        if transaction.scheduled:
            gate = self.log_gate()
            if gate != gates.OPEN:
                return gate, transaction.scheduled[0][0].parts[0]
        return gates.OPEN, None

    def log_gate(self, is_logged: bool = True) -> int:
        """Return the gate of the stop or the disk.  Scheduled messages meet no other: no address holds them yet."""
        if self.stop is not None and self.stop.holds_back():
            return gates.STOPPING
        if is_logged and not self.store.is_accepting():
            return gates.STORE
        return gates.DISK if is_logged and self.disk_reason else gates.OPEN

    def is_gate_open(self, gate: int, destination: Queue | Topic) -> bool:
        """Say whether messages refused at this gate may try again."""
        if gate == gates.STORE:
            return self.store.is_accepting()
        if gate == gates.MEMORY:
            return not self.is_memory_shut
        if gate == gates.DISK:
            return not self.disk_reason
        if gate in (gates.RATE, gates.USER_RATE, gates.STOPPING):
            return False  # a timer reopens the first two, nothing the last
        account = destination.account
        return account is None or not (account.is_shut or (account.action == FAIL and account.is_full))

    def discards(self, destination: Queue | Topic) -> bool:
        """Say whether a message of an admitted transaction is dropped because its address is full; count it."""
        account = destination.account
        if account is None or account.action != DROP or not account.is_over():
            return False
        self._refuse(account)
        self.count_dropped(destination)
        return True

    def withhold(self, client: Client, destination: Queue | Topic) -> None:
        """Record that ``client`` gets no credit for a full address; ``Client.admit`` is called when there is room.

        No message of the client waits, so no message can wait too long.
        """
        account = destination.account
        assert account is not None, "only a limit of the address withholds credit"
        if not account.is_shut:
            self._refuse(account)
        self.waits.park(client, gates.CREDIT, destination)

    # -- opening

    def open_gates(self) -> None:
        """Open the gates whose reason has gone, and let waiting producers continue."""
        is_accepting = self.store.is_accepting()
        memory = self.memory
        if memory.is_eased():
            self.is_memory_shut = False
        self._let_go_on()
        while any(account.has_room() for account in self.accounts.full):
            self._let_go_on()  # the commit has settled what kept an address full
        is_memory_full = not memory.is_eased()
        self.is_blocked = bool(
            is_memory_full
            or self.disk_reason
            or not is_accepting
            or self.accounts.full
            or self.late_memory.over
            or self.stop is not None
        )

    def has_room(self) -> bool:
        """Say whether something has made room since the gates were looked at last."""
        if self.is_memory_shut and self.memory.is_eased():
            return True
        return any(account.has_room() for account in self.accounts.full)

    def _let_go_on(self) -> None:
        if self.accounts.full:
            self.accounts.drain(self.store)
        if self.is_own_next and self._own_go_on():
            self.is_own_next = False
        for number, waits in list(self.waits.parked.items()):
            if self._is_any_open(waits):
                self.is_own_next = True
                self.waits.admit(number)
        if not self.is_own_next:
            self._own_go_on()

    def _own_go_on(self) -> bool:
        """Let the broker's own senders send what waited; return whether there was any."""
        is_any = False
        for sender in self.own_senders:
            is_any = sender.gates_opened() or is_any
        return is_any

    # -- the steps

    def _refuse(self, account: Account) -> int:
        """Apply the policy of a full address."""
        if not account.is_full:  # the common limit is reached by another address
            self.accounts.fill(account)
        if account.action == BLOCK:
            account.is_shut = True
            return gates.ADDRESS_FULL
        if account.action == DROP:
            return gates.DISCARDED
        account.failed_count += 1
        raise AddressFull(f"{account.describe()}; its policy is {ACTION_NAMES[account.action]}")

    def _is_any_open(self, waits: dict[tuple[int, str], Wait]) -> bool:
        for wait in waits.values():
            if wait.gate == gates.PUBLISHING:
                if wait.client.holder not in self.late_memory.over:
                    return True
            elif self.is_gate_open(wait.gate, wait.destination):
                return True
        return False
