"""Finds the prepared branches in the log, at the start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.features.scheduler.delayed_send import Delayed
from engine.open_transaction import Transaction, TransactionLimits
from engine.ports.store import Store
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.values.destination import PREPARED_QUEUE, QUEUE
from engine.values.errors import InvalidOption, StoreCorrupt
from engine.values.message import Message
from engine.values.stored import Range
from engine.xa.branch import Branch
from engine.xa.branch_record import (
    LANE,
    HeuristicOutcome,
    PreparedRecord,
    PreparedSend,
    is_branch,
    is_outcome,
    read_branch,
    read_outcome,
    read_send,
)
from engine.xa.held_entries import hold

UNLIMITED: Final = TransactionLimits(1 << 62, 1 << 62, 1 << 62)  # it met its limits before it was prepared


@dataclass(slots=True)
class FoundBranches:
    """branches: each with its records and the time at which it was prepared.

    outcomes: those that an operator has decided and nobody has forgotten.
    orphans: records of messages whose branch is lost, because the operator has allowed to skip damaged records.
    """

    queue_number: int = 0
    branches: list[tuple[Branch, Range, int]] = field(default_factory=list)
    outcomes: list[HeuristicOutcome] = field(default_factory=list)
    orphans: list[Range] = field(default_factory=list)


def found_branches(store: Store, destinations: Destinations) -> FoundBranches:
    """Return the prepared branches, and keep what they have acknowledged from everybody.

    Raises: StoreError if the disk cannot be read.
    """
    found = FoundBranches()
    records: list[Message] = []
    for state in store.recovered():
        if state.kind == QUEUE and state.name == PREPARED_QUEUE:
            found.queue_number = state.destination_id
            for lane in state.lanes:
                for first, end in lane.waiting_runs():
                    records += store.read_messages(state.destination_id, lane.priority, first, end - first)
    if not records:
        return found
    queues = {queue.destination_id: queue for queue in destinations.all_queues() if queue.is_logged}
    sends: dict[int, Message] = {}
    for record in records:
        if not is_branch(record) and not is_outcome(record):
            sends[record.queue_offset] = record
            continue
        try:
            if is_outcome(record):
                found.outcomes.append(read_outcome(record))
                continue
            described = read_branch(record)
            first = record.queue_offset - described.send_count
            own = [sends.pop(offset) for offset in range(first, record.queue_offset) if offset in sends]
            parts = [read_send(one) for one in own]
        except (KeyError, ValueError, TypeError, InvalidOption) as error:
            raise StoreCorrupt(
                f"the prepared transaction at log offset {record.log_offset} is malformed: {error}"
            ) from error
        branch = _branch(described, parts, destinations)
        _hold(branch, described, store, queues)
        size_bytes = record.size + sum(one.size for one in own)
        place = Range(LANE, first, described.send_count + 1, 0, size_bytes)
        found.branches.append((branch, place, described.prepared_ms))
    found.orphans = [Range(LANE, offset, 1, 0, one.size) for offset, one in sends.items()]
    return found


def _branch(described: PreparedRecord, sends: list[PreparedSend], destinations: Destinations) -> Branch:
    transaction = Transaction(None, str(described.xid), UNLIMITED)
    branch = Branch(described.xid, described.user, transaction)
    branch.replay_key = described.replay_key
    for send in sends:
        targets = [
            destinations.own_queue(name) if kind == QUEUE else destinations.own_topic(name)
            for kind, name in send.targets
        ]
        message = send.message
        if send.plan is not None:
            transaction.add_scheduled(Delayed(targets, send.plan), message)
        else:
            message.destination_id = targets[0].destination_id
            transaction.add_send(targets[0], message)
        if send.key is not None:
            branch.keys.append(send.key)
    return branch


def _hold(branch: Branch, described: PreparedRecord, store: Store, queues: dict[int, Queue]) -> None:
    for run in described.held:
        queue = queues.get(run.number)
        if queue is not None:
            branch.held.append(hold(store, queue, run.priority, run.first, run.count))
            branch.transaction.action_count += run.count
