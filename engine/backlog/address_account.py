"""Usage of each address, counted against its limits.  Terms: Artemis address-settings; docs/reference/flow-control.md.

Under BLOCK, DROP and FAIL a message counts once for its address, on disk or in memory.  Its encoded headers and body
count from the append until the last queue of the address has settled it.  Under PAGE the page limits, if set, apply to
the same sums; the memory of such an address is bounded by its lanes.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Final

from config.policies import UNLIMITED, AddressFullPolicy
from engine.backlog.memory_budget import MemoryBudget
from engine.ports.store import StoreCatalog
from engine.values.message import SHOWN, Message

# What happens to the next message of a full address.
BLOCK: Final = 0
DROP: Final = 1
FAIL: Final = 2

ACTIONS: Final = {"BLOCK": BLOCK, "DROP": DROP, "FAIL": FAIL}
ACTION_NAMES: Final = {BLOCK: "BLOCK", DROP: "DROP", FAIL: "FAIL"}

# Waiting producers resume once an address has come down to this part of its limit.  Without this gap a full address
# would open and shut for every message, and waiting producers would starve behind newcomers.
RESUME_PERCENT: Final = 90


def limits_of(policy: AddressFullPolicy) -> tuple[int, int, int]:
    """Return (octets, messages, action): what is counted under ``policy``; -1 for no limit."""
    if policy.address_full_policy == "PAGE":
        return policy.page_limit_bytes, policy.page_limit_messages, ACTIONS[policy.page_full_policy]
    return policy.max_size_bytes, policy.max_size_messages, ACTIONS[policy.address_full_policy]


def resume_at(limit: int) -> int:
    """Return the most that an address with ``limit`` may hold to take messages again."""
    return limit * RESUME_PERCENT // 100


class SharedAddress:
    """A topic as its account sees it."""

    __slots__ = ("destination_id",)

    def __init__(self, destination_id: int) -> None:
        self.destination_id = destination_id

    @abstractmethod
    def longest_durable(self) -> int:
        """Return the depth of the longest durable subscription, in messages."""


class Gates:
    """The gates for producers, as accounts see them."""

    __slots__ = ()

    @abstractmethod
    def block(self) -> None:
        """Check the gates at the end of this turn: one may be shut or must be opened."""


class Account:
    """Usage of one address: a queue, or a topic with all its subscriptions.

    max_bytes, max_messages: -1 for no limit.  An address is full with more octets than the limit (HornetQ: one message
    may overshoot), or with as many messages as the limit.
    is_full: a limit was reached, and usage has not come down to ``resume_at`` since.
    is_shut: full, and some producer waits or was refused, so newcomers wait, too.
    topic: the topic of this account, None for a queue.  A topic's messages are held by its subscriptions: messages
    outside the log in memory; logged ones in memory (``memory``) or as entries of durable subscriptions (``durable``),
    often both, and the larger of the two sums counts.
    dropped_count, failed_count: since the start, messages discarded and sends refused with an error.
    """

    __slots__ = (
        "uri",
        "action",
        "max_bytes",
        "max_messages",
        "timeout_ms",
        "reject_bytes",
        "used_bytes",
        "used_messages",
        "is_full",
        "is_shut",
        "topic",
        "memory_bytes",
        "memory_messages",
        "durable_bytes",
        "durable_messages",
        "dropped_count",
        "failed_count",
        "accounts",
    )

    def __init__(self, accounts: Accounts, uri: str, policy: AddressFullPolicy) -> None:
        self.accounts = accounts
        self.uri = uri
        self.max_bytes, self.max_messages, self.action = limits_of(policy)
        self.timeout_ms = policy.block_timeout_ms
        self.reject_bytes = policy.max_size_bytes_reject_threshold
        self.used_bytes = 0
        self.used_messages = 0
        self.is_full = False
        self.is_shut = False
        self.topic: SharedAddress | None = None
        self.memory_bytes = 0
        self.memory_messages = 0
        self.durable_bytes = 0
        self.durable_messages = 0
        self.dropped_count = 0
        self.failed_count = 0

    def enter(self, size_bytes: int) -> None:
        """Count a message that the address has taken; ``ProducerGates`` has checked its limit before."""
        self.used_bytes += size_bytes
        self.used_messages += 1
        accounts = self.accounts
        accounts.used_bytes += size_bytes
        accounts.used_messages += 1
        if not self.is_full and self.is_over():
            accounts.fill(self)

    def leave(self, size_bytes: int) -> None:
        """Subtract a message that its last queue has settled."""
        self.used_bytes -= size_bytes
        self.used_messages -= 1
        self.accounts.used_bytes -= size_bytes
        self.accounts.used_messages -= 1

    def count_logged(self, size_bytes: int, count: int) -> None:
        """Add (1) or subtract (-1) a topic's logged message that is also held in memory."""
        self._set_logged(
            self.memory_bytes + size_bytes * count,
            self.memory_messages + count,
            self.durable_bytes,
            self.durable_messages,
        )

    def remove_logged(self, size_bytes: int, count: int) -> None:
        """Subtract a topic's logged messages that were also held outside the log.  size_bytes: of all."""
        self._set_logged(
            self.memory_bytes - size_bytes, self.memory_messages - count, self.durable_bytes, self.durable_messages
        )

    def see_durable(self, store: StoreCatalog) -> None:
        """Update what durable subscriptions hold: octets from the store, messages from the longest of them."""
        topic = self.topic
        if topic is None:
            return
        count = topic.longest_durable()
        size_bytes = store.live_bytes(topic.destination_id) if count else 0
        # A depth includes messages outside the log, but those are counted already as held by memory.
        not_logged = self.used_messages - max(self.memory_messages, self.durable_messages)
        self._set_logged(self.memory_bytes, self.memory_messages, size_bytes, max(0, count - not_logged))

    def _set_logged(self, memory_bytes: int, memory_messages: int, durable_bytes: int, durable_messages: int) -> None:
        before_bytes = max(self.memory_bytes, self.durable_bytes)
        before_messages = max(self.memory_messages, self.durable_messages)
        self.memory_bytes = memory_bytes
        self.memory_messages = memory_messages
        self.durable_bytes = durable_bytes
        self.durable_messages = durable_messages
        self.restore(
            max(memory_bytes, durable_bytes) - before_bytes, max(memory_messages, durable_messages) - before_messages
        )

    def restore(self, size_bytes: int, message_count: int) -> None:
        """Add what recovery found, or another change of the usage."""
        self.used_bytes += size_bytes
        self.used_messages += message_count
        self.accounts.used_bytes += size_bytes
        self.accounts.used_messages += message_count
        if not self.is_full and self.is_over():
            self.accounts.fill(self)

    def is_over(self, settled_bytes: int = 0, settled_count: int = 0) -> bool:
        """Say whether the next message meets the limit.  settled: of all addresses, about to be subtracted."""
        accounts = self.accounts
        return (
            0 <= self.max_bytes < self.used_bytes
            or 0 <= self.max_messages <= self.used_messages
            or 0 <= accounts.max_bytes < accounts.used_bytes - settled_bytes
            or 0 <= accounts.max_messages <= accounts.used_messages - settled_count
        )

    def has_room(self) -> bool:
        """Say whether a full address has come down far enough to take messages again."""
        accounts = self.accounts
        return (
            (self.max_bytes < 0 or self.used_bytes <= resume_at(self.max_bytes))
            and (self.max_messages < 0 or self.used_messages <= resume_at(self.max_messages))
            and (accounts.max_bytes < 0 or accounts.used_bytes <= resume_at(accounts.max_bytes))
            and (accounts.max_messages < 0 or accounts.used_messages <= resume_at(accounts.max_messages))
            and not self.is_over()
        )

    def describe(self) -> str:
        """Return usage and limit in words: the limit that is reached, or all that are set."""
        accounts = self.accounts
        own = f"{self.uri} holds"
        limits = (
            (own, self.used_bytes, self.max_bytes, "octets", "max-size-bytes"),
            (own, self.used_messages, self.max_messages, "messages", "max-size-messages"),
            ("all addresses hold", accounts.used_bytes, accounts.max_bytes, "octets", "global-max-size"),
            ("all addresses hold", accounts.used_messages, accounts.max_messages, "messages", "global-max-messages"),
        )
        known = [limit for limit in limits if limit[2] >= 0]
        reached = [limit for limit in known if limit[1] > limit[2] or (limit[1] == limit[2] and limit[3] == "messages")]
        words = [f"{who} {used} of {limit} {what} ({name})" for who, used, limit, what, name in reached or known]
        return ", ".join(words)


@dataclass(slots=True, eq=False)
class Accounts:
    """The accounts of all addresses that have a limit, by destination, and their common sums.

    max_bytes, max_messages: of all together (global-max-size, global-max-messages), -1 for no limit.  At a common limit
    each address follows its own policy.  Addresses that page have their backlog on disk and are not included.
    full: accounts that are full now.
    """

    memory: MemoryBudget
    gates: Gates
    max_bytes: int
    max_messages: int
    by_id: dict[int, Account] = field(default_factory=dict)
    used_bytes: int = 0
    used_messages: int = 0
    full: list[Account] = field(default_factory=list)

    def open(self, destination_id: int, uri: str, policy: AddressFullPolicy) -> Account | None:
        """Return the account of a new destination, None if nothing has to be counted."""
        max_bytes, max_messages, _ = limits_of(policy)
        is_global = policy.address_full_policy != "PAGE" and (self.max_bytes >= 0 or self.max_messages >= 0)
        if max_bytes == UNLIMITED and max_messages == UNLIMITED and not is_global:
            return None
        account = Account(self, uri, policy)
        self.by_id[destination_id] = account
        self.memory.accounts = self
        account.restore(0, 0)  # an address with limit 0 is full from the start
        return account

    def close(self, destination_id: int) -> None:
        """Forget a destination that was removed, with its usage."""
        account = self.by_id.pop(destination_id, None)
        if account is not None:
            account.restore(-account.used_bytes, -account.used_messages)
            if account in self.full:
                self.full.remove(account)
            account.is_full = account.is_shut = False
            self.gates.block()  # its waiting producers continue, and find it recreated or gone

    def enter(self, message: Message) -> None:
        """Count a message that is only in memory from now on."""
        account = self.by_id.get(message.destination_id)
        if account is None:
            return
        if message.queue_offset < 0:
            account.enter(message.size)
        elif account.topic is not None and message.serial != SHOWN:  # shown by a browser or a replay: counted already
            account.count_logged(message.size, 1)

    def leave(self, message: Message) -> None:
        """Subtract a message that was only in memory."""
        account = self.by_id.get(message.destination_id)
        if account is None:
            return
        if message.queue_offset < 0:
            account.leave(message.size)
        elif account.topic is not None and message.serial != SHOWN:
            account.count_logged(message.size, -1)

    def leave_many(self, destination_id: int, is_logged: bool, size_bytes: int, count: int) -> None:
        """Subtract messages that were only in temporary files.  size_bytes: of all of them."""
        account = self.by_id.get(destination_id)
        if account is None:
            return
        if not is_logged:
            account.restore(-size_bytes, -count)
        elif account.topic is not None:
            account.remove_logged(size_bytes, count)

    def fill(self, account: Account) -> None:
        """Note that a limit of ``account`` is reached."""
        account.is_full = True
        self.full.append(account)
        self.gates.block()

    def drain(self, store: StoreCatalog) -> None:
        """Reopen the accounts that have come down far enough."""
        if self.max_bytes >= 0 or self.max_messages >= 0:
            for account in self.by_id.values():  # the common limit also keeps accounts shut that are not checked here
                if account.durable_messages:
                    account.see_durable(store)
        kept: list[Account] = []
        for account in self.full:
            account.see_durable(store)
            if account.has_room():
                account.is_full = False
                account.is_shut = False
            else:
                kept.append(account)
        self.full = kept
