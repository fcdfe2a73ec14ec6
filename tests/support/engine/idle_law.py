"""The law of idle consumers: after a turn no message waits in memory beside a consumer that could have it.

It examines messages, consumers, selectors and groups themselves, not the notes of dispatch about them.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.backlog.lane import Lane
from engine.backlog.waiting_deliveries import order_of
from engine.broker import Broker
from engine.consumers.consumer import Consumer
from engine.dispatch.message_selection import Selection, selection_of
from engine.dispatch.selector_view import SPILLED, View, seat_of
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import DELAYED, READY, Delivery
from tests.support.engine.broker_view import BrokerView
from tests.support.world.bodies import Violation


def check_nobody_idles(broker: Broker) -> None:
    """Call it after the end of a turn.  Raises: Violation."""
    view = BrokerView(broker)
    if view.is_agenda_forgotten():
        raise Violation("a part has something to do at the end of a turn, and has not put it on the agenda")
    refused = view.refused()
    queues = view.all_queues()
    for queue in queues:
        if queue.rotation:
            _check_rotation(queue)
        if queue.fates.refused_count != refused.get(queue, 0):
            raise Violation(
                f"{queue.uri()}: {refused.get(queue, 0)} refused messages are not back, "
                f"counted are {queue.fates.refused_count}"
            )
    if view.is_more_to_come():
        return  # the rest of this turn's work follows in the next
    if view.store_failure():
        return  # messages that the disk refused wait until it has healed, and those behind them
    for queue in queues:
        for lane in queue.used_lanes:
            if lane.returned or lane.ready_bytes < 0:
                _check_returned(queue, lane)
        if not queue.consumers or queue.is_dirty or not _has_any(queue):
            continue
        able = [consumer for consumer in queue.consumers.values() if _is_able(consumer)]
        if not able:
            continue
        selection = selection_of(queue)
        if selection is not None and selection.held_by() != gates.OPEN:
            continue
        ready = list(_ready(broker, queue))
        if any(not view.is_written(one.message) for one in ready):
            continue  # the disk refuses it now, and the messages behind it wait, too
        for delivery in ready:
            taker = next((one for one in able if selection is None or _may_have(selection, one, delivery)), None)
            if taker is not None:
                raise Violation(
                    f"{queue.uri()}: message {delivery.message.body[:20]!r} waits beside consumer "
                    f"{taker.consumer_id}, which has room and may have it"
                )


def _check_rotation(queue: Queue) -> None:
    """Raises: Violation for a consumer in a rotation that has gone, is there twice, or lacks a seat."""
    listed = list(queue.rotation)
    if len(listed) > 1 and len({consumer.consumer_id for consumer in listed}) < len(listed):
        raise Violation(f"{queue.uri()}: a consumer takes its turn twice in a round")
    for consumer in listed:
        if consumer.is_closed or not consumer.is_listed:
            raise Violation(f"{queue.uri()}: consumer {consumer.consumer_id} takes turns, though it has gone")
        if (seat_of(consumer) is None) != (queue.selection is None):
            raise Violation(f"{queue.uri()}: consumer {consumer.consumer_id} takes turns without a seat")


def _check_returned(queue: Queue, lane: Lane) -> None:
    """Raises: Violation for a returned delivery that does not wait, is out of order, or is not counted."""
    returned_bytes = sum([delivery.message.size for delivery in lane.returned])
    if returned_bytes > lane.ready_bytes:
        raise Violation(
            f"{queue.uri()}: {returned_bytes} octets have returned, more than the {lane.ready_bytes} that are ready"
        )
    last = -1 << 62
    for delivery in lane.returned:
        if delivery.state != READY:
            raise Violation(f"{queue.uri()}: a delivery in state {delivery.state} is among those that have returned")
        if delivery.position <= last:
            raise Violation(f"{queue.uri()}: those that have returned are not in order")
        last = delivery.position


def _is_able(consumer: Consumer) -> bool:
    return (
        consumer.is_started
        and not consumer.is_closed
        and not consumer.window.is_full
        and not consumer.outlet.is_output_full
        and not (consumer.queue.extras.pause is not None and consumer.is_ruled)
    )


def _has_any(queue: Queue) -> bool:
    """Say whether anything is in memory that may be ready: this is asked after each turn, and seldom so."""
    for lane in queue.used_lanes:
        if lane.returned or lane.ready or lane.ahead.by_offset:
            return True
    return False


def _ready(broker: Broker, queue: Queue) -> Iterator[Delivery]:
    """Return the deliveries in memory that are next in order."""
    for lane in queue.used_lanes:
        ahead = lane.ahead.by_offset.values() if queue.selection is not None else ()  # otherwise a page comes before it
        for delivery in (*lane.returned, *lane.ready, *ahead):
            message = delivery.message
            if delivery.state == READY and not 0 < message.expires_ms <= broker.wall_ms:
                yield delivery


def _is_read(lane: Lane) -> bool:
    """Say whether a part of a lane is on its way to memory, or waits for the next request to the disk."""
    return (
        lane.pages.is_loading
        or lane.pages.is_scanning
        or lane.pages.awaits_retry
        or (lane.spill is not None and lane.spill.reading is not None)
    )


def _is_unseen(lane: Lane, view: View) -> bool:
    """Say whether some of a lane is on disk or in a file and was not looked at, perhaps because memory is short."""
    if lane.next_load < lane.tail and view.is_behind(lane.priority):
        return True
    return lane.spill is not None and view.is_behind(lane.priority + SPILLED)


def _may_have(selection: Selection, consumer: Consumer, delivery: Delivery) -> bool:
    seat = seat_of(consumer)
    assert seat is not None, "a consumer of this queue has a seat"
    index = selection.index
    if selection.turns.is_shut_for(consumer) or not index.matches(seat.view, delivery):
        return False
    if index.exclusions is not None and index.exclusions.excludes(delivery, consumer):
        return False
    higher = [lane for lane in selection.queue.used_lanes if lane.priority > delivery.lane.priority]
    if any(_is_read(lane) or _is_unseen(lane, seat.view) for lane in higher):
        return False  # a message of a higher priority may come first
    if not seat.view.has_passed(delivery):
        return False  # its selector has found as much as allowed, or earlier messages are on disk or in a file
    group = selection.groups.of(delivery)
    if group is None or not consumer.is_ruled:
        return True
    order = order_of(delivery)
    if any(one.state == DELAYED and order_of(one) < order for one in group.delayed.values()):
        return False
    owner = group.owner()
    if owner is None:
        return not group.unsettled
    if owner is consumer:
        return True
    owner_seat = seat_of(owner)
    assert owner_seat is not None, "the owner of a group is there"
    is_excluded = index.exclusions is not None and index.exclusions.excludes(delivery, owner)
    return is_excluded or not index.matches(owner_seat.view, delivery)
