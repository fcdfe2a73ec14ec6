"""What producers wait for, in words."""

from __future__ import annotations

from engine.limits.parked_producers import Wait
from engine.limits.producer_gates import ProducerGates
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.delivery import consumer_words


def reasons(producer_gates: ProducerGates, client_number: int) -> list[str]:
    """Return in words what the client's messages wait for, and how long they have waited."""
    now_ms = producer_gates.clock.monotonic_ms()
    return [
        f"{describe(producer_gates, wait)}; for {(now_ms - wait.since_ms) / 1000:.1f} s"
        for wait in producer_gates.waits.parked.get(client_number, {}).values()
    ]


def describe(producer_gates: ProducerGates, wait: Wait) -> str:
    """Return the gate, the usage of its limit, and which consumer holds the messages."""
    if wait.gate == gates.PUBLISHING:
        return f"{gates.GATE_NAMES[wait.gate]}: {producer_gates.late_memory.describe(wait.client.holder)}"
    if wait.gate == gates.USER_RATE and producer_gates.user_rates is not None:
        return f"{gates.GATE_NAMES[wait.gate]}: {producer_gates.user_rates.describe(wait.client.holder)}"
    return describe_gate(producer_gates, wait.gate, wait.destination)


def describe_gate(producer_gates: ProducerGates, gate: int, destination: Queue | Topic) -> str:
    """Return the same for any gate."""
    name = gates.GATE_NAMES[gate]
    account = destination.account
    intake = destination.intake
    if gate == gates.RATE and intake is not None:
        return f"{name}: {destination.uri()} takes {intake.rate} messages a second (producer-max-rate)"
    if gate == gates.STOPPING:
        return f"{name}: the gateway stops and accepts nothing more from connections that hold no messages"
    if gate == gates.DISK:
        return f"{name}: {destination.uri()}, {producer_gates.disk_reason}"
    if gate == gates.MEMORY:
        pending = producer_gates.pending_memory
        why = (pending.describe_failure(), producer_gates.unsettled.describe_largest(), pending.describe_largest())
        return "; ".join([f"{name}: {destination.uri()}", *filter(None, why)])
    if gate not in (gates.ADDRESS_FULL, gates.CREDIT) or account is None:
        return f"{name}: {destination.uri()}"
    return f"{name}: {account.describe()}; {_who_holds(destination)}"


def _who_holds(destination: Queue | Topic) -> str:
    """Return where most messages of the address are, in words."""
    queues = [destination] if isinstance(destination, Queue) else list(destination.subscriptions.values())
    consumers = [consumer for queue in queues for consumer in queue.consumers.values()]
    waiting = sum(queue.depth - queue.in_flight_count for queue in queues)
    if not consumers:
        return f"{waiting} messages wait, and there is no consumer"
    most = max(consumers, key=lambda consumer: len(consumer.ledger))
    return f"{waiting} messages wait, {len(most.ledger)} are with {consumer_words(most.description())}"
