"""Who may send now: the gates before the engine, and the connections that wait at them."""

from __future__ import annotations

from engine import gates
from engine.client import Client
from engine.destination import TOPIC
from engine.memory import MemoryBudget
from engine.message import PERSISTENT, Message
from engine.ports import Store
from engine.queue import Queue
from engine.topic import Topic
from engine.transaction import Transaction


class Flow:
    """Gates for producers.

    is_blocked: some gate may be shut; only then is a message asked for its gate.
    is_memory_shut: the budget was full, and ``resume_bytes`` is not reached yet.
    parked: client number -> (client, bits of the gates it waits at, the last of them in words).
    """

    __slots__ = ("store", "memory", "is_blocked", "is_memory_shut", "parked")

    def __init__(self, store: Store, memory: MemoryBudget) -> None:
        self.store = store
        self.memory = memory
        self.is_blocked = False
        self.is_memory_shut = False
        self.parked: dict[int, tuple[Client, int, str]] = {}

    def refusal(self, destination: Queue | Topic, message: Message) -> int:
        """Return the gate that holds ``message`` back now, gates.OPEN for none."""
        if not self.is_blocked:
            return gates.OPEN
        is_logged = message.flags & PERSISTENT or destination.settings.log_non_persistent
        if is_logged and not self.store.is_accepting():
            return gates.STORE
        if self.memory.used_bytes >= self.memory.limit_bytes:
            self.is_memory_shut = True  # until ``resume_bytes``: those who wait must not starve behind newcomers
        if self.is_memory_shut and (not is_logged or destination.kind == TOPIC):
            return gates.MEMORY
        return gates.OPEN

    def commit_refusal(self, transaction: Transaction) -> tuple[int, Queue | Topic | None]:
        """Return the gate that holds the COMMIT back, and the destination it is about."""
        if self.is_blocked:
            for destination, message in transaction.sends:
                gate = self.refusal(destination, message)
                if gate != gates.OPEN:
                    return gate, destination
        return gates.OPEN, None

    def park(self, client: Client, gate: int, destination: Queue | Topic) -> None:
        """Remember that ``client`` waits at ``gate``; ``Client.admit`` tells it when to try again."""
        known = self.parked.get(client.client_number)
        waits_at = 1 << gate | (0 if known is None else known[1])
        self.parked[client.client_number] = (client, waits_at, f"{gates.GATE_NAMES[gate]}: {destination.uri()}")

    def open_gates(self) -> None:
        """Open the gates whose reason has gone, and let those who waited there go on."""
        is_accepting = self.store.is_accepting()
        if self.memory.used_bytes <= self.memory.resume_bytes:
            self.is_memory_shut = False
            self.is_blocked = not is_accepting
        opened = (1 << gates.STORE if is_accepting else 0) | (0 if self.is_memory_shut else 1 << gates.MEMORY)
        for number, (client, waits_at, _) in list(self.parked.items()):
            if waits_at & opened and self.parked.pop(number, None) is not None:
                client.admit()  # parks again at once if another gate of its is still shut
