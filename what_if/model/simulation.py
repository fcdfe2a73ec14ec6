"""The simulation: messages come at their times, consumers settle at theirs, and the engine decides in between."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.broker_options import BrokerOptions
from engine.limits.producer_gates import GlobalLimits
from engine.sources.composite import Target
from engine.store.offline import WorkersInTurn
from engine.values.destination import QUEUE
from engine.values.message import PERSISTENT, STOMP, Message
from what_if.figures import Figures, Period
from what_if.model.consumers import REFERENCE, Actor, SimulatedConsumer, Subscriber, Work
from what_if.model.observed_store import ObservedStore
from what_if.model.producers import Producer
from what_if.model.scenario import AS_MEASURED, AS_THE_ADDRESS_SAYS, Scenario
from what_if.ports.virtual_time import VirtualClock, VirtualTimers
from what_if.trace.trace import ALWAYS_MS, NEVER_MS, Owner, Trace, TracedConsumer


class Simulation:
    """One scenario on one trace.  prefetch: of its consumers, None for the address's."""

    def __init__(self, trace: Trace, scenario: Scenario) -> None:
        self.trace = trace
        self.scenario = scenario
        self.prefetch = None if scenario.prefetch == AS_THE_ADDRESS_SAYS else scenario.prefetch
        self.clock = VirtualClock(trace.start_ms, trace.start_ms)
        self.timers = VirtualTimers(self.clock)
        self.workers = WorkersInTurn()
        self.store = ObservedStore(self.workers, Period(trace.start_ms, trace.end_ms))
        options = BrokerOptions(
            seed=scenario.seed,
            limits=GlobalLimits(scenario.global_max_bytes, scenario.global_max_messages),
            virtual_topics=(),  # their copies are messages of the trace
            has_advisories=False,
            expire_messages_period_ms=scenario.expire_period_ms,
        )
        matcher = AddressMatcher(scenario.addresses)
        self.broker = Broker(self.store, self.clock, self.timers, matcher, scenario.memory_limit_bytes, options)
        self._numbers = count()
        self._due: list[tuple[int, int, Actor]] = []
        self._producers: list[Producer] = []

    def run(self) -> dict[Owner, Figures]:
        """Return the figures of each queue and durable subscription."""
        self._open(self.trace.start_ms)
        self._make_destinations()
        self._make_consumers()
        self._close()
        self._play()
        for producer in self._producers:
            producer.end()
        for figures in self.store.figures.values():
            figures.end()
        return self.store.figures

    def call_at(self, when_ms: int, actor: Actor) -> None:
        """Let somebody act at a time."""
        heappush(self._due, (when_ms, next(self._numbers), actor))

    def destination(self, kind: int, name: str) -> Target:
        destinations = self.broker.destinations
        return destinations.own_queue(name) if kind == QUEUE else destinations.own_topic(name)

    # -- what there is

    def _make_destinations(self) -> None:
        trace = self.trace
        for (kind, name), readers in zip(trace.destinations, trace.readers(), strict=True):
            figures = [self.store.of_owner(trace.owners[place]) for place in readers]
            producer = Producer(self, self.destination(kind, name), figures)
            self.broker.connect(producer)
            self._producers.append(producer)

    def _make_consumers(self) -> None:
        trace, wanted = self.trace, self.scenario.consumers
        measured: dict[int, list[TracedConsumer]] = {}
        for one in trace.consumers:
            measured.setdefault(one.owner, []).append(one)
        for place, owner in enumerate(trace.owners):
            if owner.subscription:
                self.call_at(max(self._begins_ms(place), trace.start_ms), Subscriber(self, owner))
        self._act()
        for place, those in measured.items():
            work = Work(trace.attempts, trace.consumers, place, self.scenario.seed, self.scenario.is_drawn)
            begins_ms = self._begins_ms(place)
            if wanted == AS_MEASURED:
                chosen = [(one, one.from_ms, one.to_ms) for one in those]
            else:
                busiest = sorted(those, key=lambda one: -len(one.services_us))
                chosen = [(busiest[number % len(busiest)], ALWAYS_MS, NEVER_MS) for number in range(wanted)]
            for one, from_ms, to_ms in chosen:
                consumer = SimulatedConsumer(self, trace.owners[place], work, one, max(from_ms, begins_ms), to_ms)
                self.call_at(max(consumer.from_ms, trace.start_ms), consumer)
        self._act()

    def _begins_ms(self, place: int) -> int:
        """Return when a durable subscription began: with its first message."""
        since = self.trace.since[place]
        messages = self.trace.messages
        if not since or not messages or messages.offsets[0] >= since:
            return ALWAYS_MS
        return next(
            (time_ms for time_ms, at in zip(messages.times_ms, messages.offsets, strict=True) if at >= since), ALWAYS_MS
        )

    # -- what happens

    def _play(self) -> None:
        messages, producers = self.trace.messages, self._producers
        is_open = False
        for at, time_ms in enumerate(messages.times_ms):
            if not messages.are_sent[at]:
                continue
            if time_ms > self.clock.now_ms or not is_open:
                if is_open:
                    self._close()
                self._advance(time_ms - 1)
                self._open(time_ms)
                is_open = True
            producer = producers[messages.destinations[at]]
            body = REFERENCE.pack(messages.offsets[at], messages.firsts[at], messages.counts[at])
            message = Message(
                producer.destination.destination_id,
                STOMP,
                PERSISTENT,  # it was in the log
                messages.priorities[at],
                0,
                messages.groups[at],
                messages.expiries_ms[at],
                b"",
                b"",
                body,
            )
            message.size = messages.sizes[at]
            producer.send(message)
        if is_open:
            self._close()
        self._advance(self.trace.end_ms)

    def _advance(self, until_ms: int) -> None:
        """Let everything happen that is due up to a time."""
        due, timers = self._due, self.timers
        while True:
            next_ms = timers.next_ms()
            if due and (next_ms is None or due[0][0] < next_ms):
                next_ms = due[0][0]
            if next_ms is None or next_ms > until_ms:
                return
            self._open(max(next_ms, self.clock.now_ms))
            self._close()

    def _open(self, now_ms: int) -> None:
        """Begin a turn with everything that is due."""
        self.clock.now_ms = now_ms
        self.broker.begin_turn()
        next_ms = self.timers.next_ms()
        if next_ms is not None and next_ms <= now_ms:
            self.timers.fire_due()
        self._act()

    def _act(self) -> None:
        due, now_ms = self._due, self.clock.now_ms
        while due and due[0][0] <= now_ms:
            heappop(due)[2].act(now_ms)

    def _close(self) -> None:
        """End turns until this millisecond has nothing more to do."""
        broker, now_ms = self.broker, self.clock.now_ms
        while True:
            broker.end_turn()
            broker.begin_turn()
            has_more = self.workers.run_all() or broker.has_more_to_do()
            if self._due and self._due[0][0] <= now_ms:
                self._act()
                has_more = True
            if not has_more:
                if broker.settlements.waiting:
                    broker.flush_settlements()
                return


def simulate(trace: Trace, scenario: Scenario) -> dict[Owner, Figures]:
    """Run one scenario."""
    return Simulation(trace, scenario).run()
