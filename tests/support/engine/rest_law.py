"""The law of rest: when no work is left, no consumer lacks a message that it could have, wherever that is.

It covers more than the law of idle consumers, and trusts less.  It examines messages on disk and in temporary files,
selectors themselves instead of the index, windows of consumers that hold nothing, and owners of queues and groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from engine.backlog.lane import Lane
from engine.consumers.consumer import Consumer
from engine.dispatch.message_selection import Selection, selection_of
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import READY
from engine.values.message import Message
from tests.support.engine.broker_view import BrokerView
from tests.support.world.bodies import Violation


class MessageSource(Protocol):
    """What the law asks a store."""

    def message_at(self, destination_id: int, priority: int, entry: int) -> Message | None: ...


def check_rest(view: BrokerView, store: MessageSource) -> None:
    """Call it once every job is done and no turn is pending.  Raises: Violation."""
    is_short = view.is_memory_short()
    for queue in view.all_queues():
        for consumer in queue.consumers.values():
            _check_window(queue, consumer)
        _check_owners(queue)
        able = [consumer for consumer in queue.consumers.values() if _is_open(consumer)]
        if able and not is_short and not queue.settings.queue.non_destructive:
            _check_nobody_waits(view, store, queue, able)


def _check_window(queue: Queue, consumer: Consumer) -> None:
    """Raises: Violation for a window that is shut although its consumer holds nothing."""
    window = consumer.window
    is_leaving = consumer.departing() is not None or consumer.is_closed or window.is_refusing
    if is_leaving or consumer.siblings is not None or consumer.ledger:
        return
    if window.in_flight:
        raise Violation(f"{queue.uri()}: consumer {consumer.consumer_id} holds nothing, counted are {window.in_flight}")
    if window.is_full and window.gate == gates.WINDOW_FULL and window.room():
        raise Violation(f"{queue.uri()}: the window of consumer {consumer.consumer_id} is shut, and nothing is in it")


def _check_owners(queue: Queue) -> None:
    """Raises: Violation if the owner of a queue or a group has gone."""
    selection = selection_of(queue)
    if selection is None:
        return
    owners = [selection.turns.active, selection.turns.heir]
    owners += [group.owner() for group in selection.groups.by_key.values()]
    for owner in owners:
        if owner is not None and queue.consumers.get(owner.consumer_id) is not owner:
            raise Violation(f"{queue.uri()}: consumer {owner.consumer_id} has it, or a group of it, and is not there")


def _is_open(consumer: Consumer) -> bool:
    return (
        consumer.is_started
        and not consumer.is_closed
        and consumer.departing() is None
        and not consumer.window.is_full
        and not consumer.outlet.is_output_full
        and not (consumer.queue.extras.pause is not None and consumer.is_ruled)
    )


def _check_nobody_waits(view: BrokerView, store: MessageSource, queue: Queue, able: list[Consumer]) -> None:
    selection = selection_of(queue)
    if selection is not None and selection.held_by() != gates.OPEN:
        return
    if queue.is_held_by_delays() or queue.feed.is_browser:
        return
    for lane in queue.used_lanes:
        for message, where in waiting(view, store, queue, lane):
            for consumer in able:
                if selection is None or _may_have(view, selection, consumer, message):
                    raise Violation(
                        f"{queue.uri()}: entry {message.queue_offset} of priority {lane.priority} waits {where}, and "
                        f"consumer {consumer.consumer_id} has room and may have it"
                    )


def waiting(view: BrokerView, store: MessageSource, queue: Queue, lane: Lane) -> Iterator[tuple[Message, str]]:
    wall_ms = view.broker.wall_ms
    ahead = lane.ahead.by_offset
    for delivery in (*lane.returned, *lane.ready, *ahead.values()):
        if delivery.state == READY and not 0 < delivery.message.expires_ms <= wall_ms:
            yield delivery.message, "in memory"
    if not queue.is_logged:
        return
    for entry in range(lane.next_load, lane.tail):
        if entry in ahead or entry in lane.settled:
            continue
        message = store.message_at(queue.source_id(), lane.priority, entry)
        if message is not None and not 0 < message.expires_ms <= wall_ms:
            yield message, "on disk"


def _may_have(view: BrokerView, selection: Selection, consumer: Consumer, message: Message) -> bool:
    queue = selection.queue
    if selection.turns.is_shut_for(consumer):
        return False
    if consumer.selector is not None:
        if not consumer.selector.matches(view.properties(message)):
            return False
    if selection.index.exclusions is not None or message.group_hash:
        return False  # the law of idle consumers covers these
    return not any(lane.is_ahead_full() for lane in queue.used_lanes)
