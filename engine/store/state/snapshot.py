"""Snapshots: the state of a store as the JSON of one record, and back.  Layout: docs/reference/log-format.md."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from engine.store.format.layout import SYSTEM_QUEUE
from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.destination import LoggedDestination
from engine.store.state.log_state import StoreState, compact_json
from engine.store.state.progress import Progress
from engine.store.state.subscription import DurableSubscription, SubscriptionLane
from engine.values.destination import QUEUE
from engine.values.stored import Attempts


def encode_snapshot(state: StoreState, sequence: int) -> bytes:
    """Return the payload of a snapshot record with that sequence."""
    return put_together(
        state,
        sequence,
        map(describe, state.destinations.values()),
        map(describe_subscription, state.subscriptions.values()),
    )


def put_together(
    state: StoreState, sequence: int, destinations: Iterable[bytes], subscriptions: Iterable[bytes]
) -> bytes:
    """Return the payload of a snapshot record.

    destinations: results of ``describe``; subscriptions: results of ``describe_subscription``.
    """
    state.forget_consumers()
    consumers = ",".join(state.consumers.described.values())
    head = (
        f'{{"sequence":{sequence},"next_consumer":{state.consumers.next_number},"next_destination":{state.next_destination},'
        f'"system_tail":{state.system.tail},"destinations":['
    )
    rest = f'],"consumers":[{consumers}]}}'
    # These may be megabytes, so they are copied only once.
    return b"".join(
        (head.encode(), b",".join(destinations), b'],"subscriptions":[', b",".join(subscriptions), rest.encode())
    )


def load_snapshot(payload: bytes) -> StoreState:
    """Return the state that a snapshot describes.

    Raises: KeyError, TypeError, ValueError for a malformed one.
    """
    described: dict[str, Any] = json.loads(payload)
    state = StoreState()
    state.consumers.next_number = int(described["next_consumer"])
    state.system = ConsumeQueue(SYSTEM_QUEUE, 0, True, int(described["system_tail"]))
    for destination in described["destinations"]:
        number = int(destination["id"])
        state.add_destination(number, int(destination["kind"]), str(destination["name"]))
        for known in destination["lanes"]:
            lane = state.open_lane(number, int(known["priority"]))
            lane.tail = lane.entries_first = int(known["tail"])
            _load_progress(lane, known)
        if lanes := state.destinations[number].lanes:
            lanes[0].live_bytes = int(destination["live_bytes"])
    for known in described["subscriptions"]:
        subscription = DurableSubscription(
            int(known["id"]), int(known["topic"]), str(known["name"]), known["description"]
        )
        for progress in known["lanes"]:
            own = SubscriptionLane(0, int(progress["counted_from"]))
            own.end = int(progress["end"])
            _load_progress(own, progress)
            subscription.lanes[int(progress["priority"])] = own
        subscription.is_closing = bool(known["is_closing"])
        state.destinations[subscription.topic_id].holders.members.append(subscription)
        state.subscriptions[subscription.number] = subscription
    for known in described["consumers"]:
        state.consumers.add(int(known["id"]), compact_json(known))
    state.next_destination = int(described["next_destination"])
    state.find_failing()
    return state


def describe(destination: LoggedDestination) -> bytes:
    """Return the description of a destination in a snapshot."""
    lanes = destination.lanes
    if len(lanes) == 1 and destination.kind == QUEUE:
        # Nearly all are like this: the same as the general case below, in half the time.
        lane = lanes[0]
        if lane.tail and not lane.settled.pages and lane.failed is None:
            return (
                f'{destination.head}{lane.live_bytes},"lanes":[{{"priority":{lane.priority},"tail":{lane.tail},'
                f'"cursor":{lane.settled.cursor},"settled":[],"attempts":[]}}]}}'
            ).encode()
    # A lane without a message yet is left out: a torn tail may take its first message.
    described = ",".join([_describe_lane(lane) for lane in lanes if lane.tail])
    return f'{destination.head}{destination.live_bytes()},"lanes":[{described}]}}'.encode()


def _describe_lane(lane: ConsumeQueue) -> str:
    if lane.is_topic:
        progress = f'"cursor":{lane.tail},"settled":[],"attempts":[]'
    else:
        progress = _describe_progress(lane)
    return f'{{"priority":{lane.priority},"tail":{lane.tail},{progress}}}'


def describe_subscription(subscription: DurableSubscription) -> bytes:
    """Return the description of a durable subscription in a snapshot."""
    lanes = ",".join(
        [
            f'{{"priority":{priority},"counted_from":{lane.counted_from},"end":{lane.end},{_describe_progress(lane)}}}'
            for priority, lane in sorted(subscription.lanes.items())
            if not subscription.is_new(lane)
        ]
    )
    name = json.dumps(subscription.name, ensure_ascii=False)
    return (
        f'{{"id":{subscription.number},"topic":{subscription.topic_id},"name":{name},'
        f'"description":{compact_json(subscription.description)},'
        f'"is_closing":{"true" if subscription.is_closing else "false"},"lanes":[{lanes}]}}'
    ).encode()


def _describe_progress(progress: Progress) -> str:
    attempts = "" if progress.failed is None else progress.failed.text()
    return f'"cursor":{progress.settled.cursor},"settled":[{progress.settled.text()}],"attempts":[{attempts}]'


def _load_progress(progress: Progress, known: dict[str, Any]) -> None:
    progress.settled.add(0, int(known["cursor"]))
    for first, count in known["settled"]:
        progress.settled.add(int(first), int(count))
    for entry, *attempts in known["attempts"]:
        count, due_ms, first_ms, last_ms, cause, consumer_id = map(int, attempts)
        progress.fail(int(entry), 1, Attempts(count, due_ms, first_ms, last_ms, cause, consumer_id))
