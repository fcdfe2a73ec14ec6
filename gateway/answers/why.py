"""Gates and histories in plain words: why a consumer is idle, a producer waits, a message is where it is."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from config.matching import Setting
from config.redelivery_policy import RedeliveryPolicy
from engine.features.scheduler.schedule_record import PREFIX
from engine.features.why import ConsumerView, Holder, ProducerView, Whereabouts
from engine.store.plain_words import counted
from engine.store.read.message_history import FAILED, SENT, Biography, Event
from engine.values import gates
from engine.values.delivery import consumer_words
from engine.values.message import JOB_ID
from engine.values.outcomes import CAUSE_FIRED, CAUSE_NAMES
from gateway.answers.wording import clock_time
from gateway.process.log_lines import one_line

OTHERS_SHOWN: Final = 10
GROUPS_SHOWN: Final = 10
SUBSCRIPTIONS_SHOWN: Final = 10


def consumer_lines(view: ConsumerView, now_ms: int) -> list[str]:
    """Describe what holds a consumer back, and who holds the messages that it does not get."""
    own = view.own
    lines = [
        f"consumer {own.consumer_id} of connection {view.connection_id}: {consumer_words(own.who)}",
        f"  destination  {view.destination}: {view.depth:,} there, {view.in_flight:,} in flight, "
        f"{view.delayed:,} delayed",
        f"  window       {own.in_flight:,} of {own.limit:,} in flight, {view.resumes}{_held_since(own, now_ms)}",
        f"  settled      {own.acknowledged:,} since it came",
        f"  gate         {own.gate or 'open: it gets the next message'}{_due(view)}",
    ]
    if view.groups:
        more = f" and {len(view.groups) - GROUPS_SHOWN} more" if len(view.groups) > GROUPS_SHOWN else ""
        lines.append(f"  groups       owns {', '.join(map(repr, view.groups[:GROUPS_SHOWN]))}{more}")
    if view.replay:
        lines.append(f"  replay       {view.replay}; it only reads and takes no messages")
    lines += [f"  remark       {remark}" for remark in view.remarks]
    holders = [other for other in view.others if other.in_flight]
    if own.in_flight == 0 and holders:
        lines.append("  messages that others hold cannot be taken back:")
    elif holders:
        lines.append("  other consumers of the same destination hold:")
    lines += [f"    {_holder_words(other, now_ms)}" for other in holders[:OTHERS_SHOWN]]
    if len(holders) > OTHERS_SHOWN:
        lines.append(f"    and {len(holders) - OTHERS_SHOWN} more consumers hold less")
    return _shown(lines)


def _due(view: ConsumerView) -> str:
    """Return where to find when a consumer at the gate of delays gets more."""
    if view.own.gate != gates.GATE_NAMES[gates.DELAYED]:
        return ""
    return f": {counted(view.delayed, 'message')} until redelivery; penstock why message ID says until when"


def producer_lines(view: ProducerView) -> list[str]:
    """Describe what a sending connection waits for."""
    lines = [f"connection {view.connection_id}: {consumer_words(view.who) or 'nothing known of it'}"]
    lines.append(f"  gate         {view.reason or 'open: its messages are accepted'}")
    if view.reason and view.consumers:
        has = counted(view.consumers, "subscription")
        lines.append(f"  it has {has}, so the gateway keeps reading: its ACKs come behind its SENDs")
    if view.held_bytes:
        lines.append(f"  holds        {view.held_bytes} octets: {view.holding}")
    return _shown(lines)


def message_lines(
    life: Biography,
    where: Whereabouts | None,
    policy: RedeliveryPolicy | None,
    settings: Mapping[str, Setting],
    now_ms: int,
    subscriptions: Mapping[str, Whereabouts] | None = None,
) -> list[str]:
    """Describe the history of a message.

    where: None without a running gateway.  subscriptions: those that have not settled a message of a topic, each with
    the place where it has it; None without a running gateway, or for a queue.
    policy, settings: of its destination, as configured now, with the place of each value; None and {} if no
    configuration is known.
    """
    persistence = "persistent" if life.is_persistent else "not persistent, but logged"
    lines = [f"message {life.message_id}: {persistence}, priority {life.priority}, {life.size_bytes:,} octets"]
    if life.is_dead_letter:
        lines += [f"  {name}: {value}" for name, value in life.annotations]
    elif life.is_scheduled:
        lines.append(f"  scheduled, first for {clock_time(life.expires_ms)}")
        lines += [f"  {name}: {value}" for name, value in life.annotations if name.startswith(PREFIX)]
    else:
        lines += [f"  delivered by schedule {value}" for name, value in life.annotations if name == JOB_ID]
    lines += [f"  {_event_words(event, policy, settings)}" for event in life.events]
    is_settled = any(event.outcome for event in life.events)
    if subscriptions is not None:
        lines += _subscription_lines(subscriptions, now_ms)
    elif where is not None and not is_settled:
        lines.append(f"  now: {_where_words(where, now_ms)}")
    elif not is_settled:
        lines.append(f"  until {clock_time(life.until_ms)}, where the log ends: not settled")
        lines.append("  only the running gateway knows who holds it: deliveries are not logged")
    return _shown(lines)


def _subscription_lines(subscriptions: Mapping[str, Whereabouts], now_ms: int) -> list[str]:
    lines = [
        f"  now, for {name}: {_where_words(where, now_ms)}"
        for name, where in islice(subscriptions.items(), SUBSCRIPTIONS_SHOWN)
    ]
    if len(subscriptions) > SUBSCRIPTIONS_SHOWN:
        lines.append(f"  and {len(subscriptions) - SUBSCRIPTIONS_SHOWN} more subscriptions have not settled it")
    return lines or ["  now: no subscription waits for it"]


def _shown(lines: list[str]) -> list[str]:
    """Return lines whose names and texts of clients neither add one nor reach the terminal as commands."""
    return [one_line(line) for line in lines]


def delay_words(policy: RedeliveryPolicy, redelivery: int, settings: Mapping[str, Setting]) -> str:
    """Return the formula of the delay before the ``redelivery``-th redelivery, and the places of its values."""
    used = ["initial_redelivery_delay_ms"]
    if redelivery <= 1:
        formula = f"initialRedeliveryDelay {policy.initial_redelivery_delay_ms:,} ms"
    elif policy.back_off_from_base:
        base = f"{policy.redelivery_delay_ms:,} ms x multiplier {policy.back_off_multiplier:g} ^ {redelivery - 1}"
        limit_ms = policy.maximum_ms()
        limit = f", limited to {limit_ms:,} ms" if limit_ms >= 0 else ""
        formula = f"{base}{limit}: {policy.delay_ms(redelivery):,} ms"
        used = ["redelivery_delay_ms", "back_off_multiplier", "maximum_redelivery_delay_ms"]
    else:
        previous_ms = policy.delay_ms(redelivery - 1)
        delay_ms = policy.next_delay_ms(previous_ms)
        used = ["redelivery_delay_ms"]
        grown = int(previous_ms * policy.back_off_multiplier)
        if not policy.use_exponential_back_off or previous_ms <= 0 or policy.back_off_multiplier <= 1.0:
            formula = f"redeliveryDelay {policy.redelivery_delay_ms:,} ms"
        elif delay_ms == grown:
            formula = f"{previous_ms:,} ms x backOffMultiplier {policy.back_off_multiplier:g} = {delay_ms:,} ms"
            used = ["use_exponential_back_off", "back_off_multiplier"]
        else:
            formula = (
                f"{previous_ms:,} ms x backOffMultiplier {policy.back_off_multiplier:g} = {grown:,} ms, "
                f"limited to {delay_ms:,} ms"
            )
            used = ["back_off_multiplier", "maximum_redelivery_delay_ms"]
    if policy.use_collision_avoidance:
        formula += f", plus or minus {policy.collision_avoidance_percent:g} %"
        used.append("collision_avoidance_percent")
    sources = {settings[f"redelivery.{name}"].source for name in used if f"redelivery.{name}" in settings}
    return f"{formula} ({', '.join(sorted(sources)) or 'built-in default'})"


def _event_words(event: Event, policy: RedeliveryPolicy | None, settings: Mapping[str, Setting]) -> str:
    when = clock_time(event.time_ms)
    if event.kind == SENT:
        return f"{when}  sent to {event.owner}, log offset {event.offset}"
    if event.cause == CAUSE_NAMES[CAUSE_FIRED]:
        again = f" for the {event.count}. time" if event.kind == FAILED else ""
        text = f"{when}  fired{again}"
        if event.moved_to:
            text += f" as {event.moved_to}"
        return f"{text}; due again at {clock_time(event.due_ms)}" if event.kind == FAILED else f"{text}; it is done"
    who = consumer_words(event.consumer)
    by = f" by {who}" if who else ""
    if event.kind == FAILED:
        text = f"{when}  attempt {event.count} failed ({event.cause}){by}"
        if event.due_ms:
            text += f"; waits until {clock_time(event.due_ms)}"
            if policy is not None and event.count > 0:
                text += f": {delay_words(policy, event.count, settings)}"
        else:
            text += "; returned to its place at once"
        return text
    text = f"{when}  {event.outcome}{by}"
    if event.cause != "none":
        text += f" ({event.cause})"
    if event.count:
        text += f" after {event.count} failed attempts"
    if event.cause == "exhausted" and policy is not None:
        text += f": maximumRedeliveries {policy.maximum_redeliveries} ({_source(settings, 'maximum_redeliveries')})"
    if event.moved_to:
        text += f"; it is {event.moved_to} now"
    return text


def _source(settings: Mapping[str, Setting], name: str) -> str:
    found = settings.get(f"redelivery.{name}")
    return "built-in default" if found is None else found.source


def _where_words(where: Whereabouts, now_ms: int) -> str:
    holder = where.holder
    if holder is not None:
        state = "acknowledged or refused in an open transaction of" if where.state == "in-transaction" else "with"
        return f"{state} {_holder_words(holder, now_ms)}; this message{_since(where.since_ms, now_ms)}"
    if where.state == "delayed":
        return f"waits {where.wait_ms:,} ms more for its redelivery"
    if where.state == "scheduled":
        if where.held:
            return f"is due and held back: {where.held}"
        return f"waits {where.wait_ms:,} ms more for its time" if where.wait_ms else "is due and waits for its turn"
    if where.state == "prepared":
        return f"acknowledged in the prepared transaction {where.held}, which is not decided"
    if where.state == "on-disk":
        return "waits on disk behind others"
    if where.state != "waiting":
        return "not in the queue"
    return f"waits in memory: {where.group}" if where.group else "waits in memory for a consumer"


def _holder_words(holder: Holder, now_ms: int) -> str:
    gate = f"; {holder.gate}" if holder.gate else ""
    return (
        f"consumer {holder.consumer_id} ({consumer_words(holder.who)}): {holder.in_flight:,} of "
        f"{holder.limit:,}{_held_since(holder, now_ms)}{gate}"
    )


def _held_since(holder: Holder, now_ms: int) -> str:
    return f", the oldest{_since(holder.since_ms, now_ms)}" if holder.in_flight else ""


def _since(since_ms: int, now_ms: int) -> str:
    if since_ms == 0:
        return " for longer than the gateway remembers"
    return f" for {max(0, now_ms - since_ms) / 1000:,.0f} s"
