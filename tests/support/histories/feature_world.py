"""A fuzz of the engine with all its features at once, and the law for the end of every message.

``World`` (world.py) knows queues, subscriptions and disks to the last detail.  This world has, on the store in memory
with crashes: composite, virtual and wildcard destinations, delayed deliveries, browsers, replays, groups, exclusive and
selective consumers, expiry, redelivery delays, full addresses that block or drop, transactions, queues that are deleted
while they are browsed, questions to the broker, and changes of the wall clock.  The law is short:

- On each queue and durable subscription that it was sent to, a message has exactly one end: acknowledged,
  dead-lettered, expired or dropped; a crash may also end a non-persistent one.  None comes after its end, none is with
  two consumers, none comes before its time, none exceeds a window, and groups and exclusive queues keep order.
- Expired messages leave within two scans even without a consumer; nothing expires before its time.
- Accounts, memory, depths and schedules return to zero, also with questions about statistics and the schedule.

Run one with ``FeatureWorld(seed).run()``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from config.matching import AddressEntry
from engine.broker import Broker
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL, Consumer
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.features.scheduler.scheduler import TICK_MS
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Composite, CompositeSource, Destination, Source
from engine.sources.queue import MANAGEMENT, Queue, queue_of
from engine.values import gates
from engine.values.delivery import Delivery, Refusal
from engine.values.destination import QUEUE, TEMP_QUEUE, TOPIC
from engine.values.message import Message
from engine.values.options import FIRST, ReplayStart
from tests.support.engine.broker_view import covered_by
from tests.support.engine.engine_world import address
from tests.support.engine.rest_law import check_rest
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient
from tests.support.hostile.gateway_laws import check_counts, check_paged
from tests.support.world.bodies import Violation
from tests.support.world.seeds import telling

QUEUES: Final = ("plain", "grouped", "alone", "selected", "blocked", "dropping", "expiring", "later", "passing")
VIRTUAL: Final = "VirtualTopic.v"
VIRTUAL_QUEUES: Final = ("Consumer.a.VirtualTopic.v", "Consumer.b.VirtualTopic.v")
TOPICS: Final = ("t.one", "t.two")
DURABLE: Final = "kept"  # the durable subscription to t.one
DEAD: Final = "ActiveMQ.DLQ"
EXPIRED: Final = "Expired"
COLOURS: Final = ("red", "blue")
REQUEUE: Final = Refusal("requeue")
REFUSALS: Final = (
    Refusal(),
    Refusal("requeue"),
    Refusal("redeliver"),
    Refusal("dead-letter"),
    Refusal("requeue", 70),
    Refusal("redeliver", is_excluding=False),
)
EXPIRY_PERIOD_MS: Final = 2_000
SCANS_MOST: Final = 60  # until all that has expired is gone
DRAIN_ROUNDS: Final = 800
LAWS_EVERY: Final = 3  # steps
ANSWERS: Final = "answers"  # answers to questions about the broker and its schedule
STATISTICS: Final = "ActiveMQ.Statistics."
QUESTIONS: Final = (f"{STATISTICS}Broker", f"{STATISTICS}Subscription", f"{STATISTICS}Destination.>", MANAGEMENT)
ORIGIN: Final = b"original-destination:"
ENDS: Final = ("acknowledged", "dead-lettered", "expired", "dropped")


@dataclass(slots=True, eq=False)
class Sent:
    """One message at one place.  due_ms: its earliest time.  may_go: it may be lost (crash, address that drops)."""

    uid: int
    order: int
    is_persistent: bool
    priority: int
    colour: str
    group: str
    expires_ms: int
    due_ms: int
    may_go: bool = False
    end: str = ""
    holder: Consumer | None = None


@dataclass(slots=True, eq=False)
class Taker:
    client: FakeClient
    consumers: list[Consumer]
    colour: str = ""
    is_reader: bool = False  # browses or replays: its messages prove nothing
    held: list[Delivery] = field(default_factory=list)


class FeatureWorld(RestartWorld):
    """places: by name of a queue or of the durable subscription: uid -> the message that is or was there.

    more_addresses: of a world that extends this one.
    """

    more_addresses: tuple[AddressEntry, ...] = ()

    def __init__(self, seed: int, broker_class: type[Broker] = Broker) -> None:
        self.broker_class = broker_class
        super().__init__(
            address(
                ">",
                redelivery__maximum_redeliveries=2,
                redelivery__initial_redelivery_delay_ms=50,
                redelivery__redelivery_delay_ms=120,
                dead_letter_address=DEAD,
                expiry_address=EXPIRED,
            ),
            address("grouped", queue__group_rebalance=True, queue__group_idle_timeout_ms=300),
            # Their dead letters would name the topic, and not the subscription that they come from.
            address("Consumer.>", blame="none", redelivery__maximum_redeliveries=-1),
            address("alone", queue__exclusive_consumer=True),
            address("blocked", full__address_full_policy="BLOCK", full__max_size_messages=5),
            address("dropping", full__address_full_policy="DROP", full__max_size_messages=5),
            address("passing", queue__auto_delete=True, queue__auto_delete_delay_ms=60),
            address("t.two", full__address_full_policy="BLOCK", full__max_size_messages=9),
            *self.more_addresses,
            memory_limit_bytes=Random(seed).choice((60_000, 1 << 28)),
        )
        self.chance = Random(seed)
        self.places: dict[str, dict[int, Sent]] = {}
        self.takers: list[Taker] = []
        self.delivered_count = 0
        self.crash_count = 0
        self.answer_count = 0
        self.highest_ms = 0  # highest time that the wall clock has shown
        self.told: list[str] = []
        self._next_uid = 1
        self._has_durable = False
        self._browsed: set[int] = set()
        self._paused: Queue | None = None
        self._open_undertakers()

    def run(self, steps: int = 160) -> None:
        """Raises: Violation."""
        for number in range(steps):
            self.highest_ms = max(self.highest_ms, self.broker.wall_ms)
            self._step()
            self.turn()
            self._look()
            if number % LAWS_EVERY == 0 and not self.is_more_to_come():
                self._check_laws()
        self._resume_queue()
        self._expire_all()
        self._finish()

    def _check_laws(self) -> None:
        """Check the laws that hold when no work is left."""
        check_rest(self, self.memory_store)
        check_counts(self, self._browsed)
        check_paged(self)

    # -- actions

    def _step(self) -> None:
        draw = self.chance.random()
        if draw < 0.34:
            self._send()
        elif draw < 0.42:
            self._commit()
        elif draw < 0.54:
            self._subscribe()
        elif draw < 0.82:
            self._settle()
        elif draw < 0.86:
            self._leave()
        elif draw < 0.875:
            self._pause()
        elif draw < 0.885:
            self._ask()
        elif draw < 0.89:
            self._set_clock()
        elif draw < 0.91:
            self._pause_queue()
        elif draw < 0.97:
            self.advance(self.chance.choice((1, 60, 200, 500)))
        elif draw < 0.985:
            self.sync()
        else:
            self._crash()

    def _draw_destination(self) -> tuple[Destination, list[str]]:
        """Return a destination to send to, and its places."""
        destinations = self.broker.destinations
        draw = self.chance.random()
        if draw < 0.7:
            name = self.chance.choice(QUEUES)
            return destinations.queue(name), [name]
        if draw < 0.8:
            names = self.chance.sample(("plain", "later", "expiring", "selected"), 2)
            return Composite([destinations.queue(name) for name in names]), names
        if draw < 0.9:
            known: list[str] = [name for name in VIRTUAL_QUEUES if name in destinations.queues]
            return destinations.topic(VIRTUAL), known
        name = self.chance.choice(TOPICS)
        return destinations.topic(name), [DURABLE] if name == TOPICS[0] and self._has_durable else []

    def _make(self, destination: Destination, delay_ms: int) -> tuple[Message, Sent]:
        chance = self.chance
        uid = self._next_uid
        self._next_uid += 1
        wall_ms = self.broker.wall_ms
        expires_ms = 0
        if chance.random() < 0.1 and not delay_ms and destination.uri().startswith("queue:"):
            expires_ms = wall_ms + chance.choice((40, 400))
        due_ms = wall_ms + delay_ms if delay_ms else 0
        sent = Sent(
            uid,
            uid,
            chance.random() < 0.8,
            4 if chance.random() < 0.9 else chance.choice((0, 9)),
            chance.choice(COLOURS),
            chance.choice(("", "a", "b")),
            expires_ms,
            due_ms,
        )
        message = self.message(
            destination,
            b"%d " % uid + b"x" * chance.choice((1, 40, 3_000)),
            persistent=sent.is_persistent,
            priority=sent.priority,
            expires_ms=expires_ms,
            headers=f"colour:{sent.colour}",
            group=sent.group if destination.uri() == "queue://grouped" else "",
        )
        return message, sent

    def _send(self) -> None:
        for _ in range(self.chance.randint(1, 5)):
            destination, names = self._draw_destination()
            delay_ms = 0
            if self.chance.random() < 0.15 and destination.uri().startswith("queue:"):  # else known later
                delay_ms = self.chance.choice((30, 300, 2_000))
                destination = delayed(destination, Plan(delay_ms))
            message, sent = self._make(destination, delay_ms)
            self._note(f"send {sent.uid} to {destination.uri()} in {delay_ms}")
            if self.broker.send(destination, message) == gates.OPEN:
                self._accepted(names, sent)

    def _accepted(self, names: list[str], sent: Sent) -> None:
        for name in names:
            one = Sent(*[getattr(sent, field) for field in Sent.__slots__])
            one.may_go = sent.may_go or name == "dropping"
            self.places.setdefault(name, {})[sent.uid] = one

    def _commit(self) -> None:
        """Make a transaction: sends to several places, and acknowledgements; commit or abort it."""
        transaction = Transaction(FakeClient(), "t", TransactionLimits())
        sent: list[tuple[list[str], Sent]] = []
        for _ in range(self.chance.randint(1, 3)):
            name = self.chance.choice(("plain", "later", "blocked", "alone"))
            queue = self.queue(name)
            message, one = self._make(queue, 0)
            transaction.add_send(queue, message)
            sent.append(([name], one))
        holding = [taker for taker in self.takers if taker.held and not taker.is_reader]
        taken: list[tuple[Taker, Delivery]] = []
        if holding:
            taker = self.chance.choice(holding)
            taken = [(taker, delivery) for delivery in taker.held[:2] if delivery.consumer is not None]
            taken = [one for one in taken if one[1].consumer.ack_mode == INDIVIDUAL]  # type: ignore[union-attr]
            transaction.add_accepted([delivery for _, delivery in taken])
        if self.broker.commit_refusal(transaction)[0] != gates.OPEN or self.chance.random() < 0.2:
            self._note("a transaction is given up")
            self.broker.abort(transaction)
            return
        self._note(f"a transaction of {[one.uid for _, one in sent]}")
        for taker, delivery in taken:
            taker.held.remove(delivery)
            self._ended(delivery, "acknowledged")
        self.broker.commit(transaction)
        for names, one in sent:
            self._accepted(names, one)

    def _subscribe(self) -> None:
        if len(self.takers) >= 7:
            return
        chance = self.chance
        client = self.client(f"c{self._next_uid}")
        mode = chance.choice((AUTO, CLIENT, INDIVIDUAL, INDIVIDUAL))
        prefetch = chance.choice((1, 1, 2, 5, 50))
        destinations = self.broker.destinations
        draw = chance.random()
        if draw < 0.6:
            name = chance.choice(QUEUES + VIRTUAL_QUEUES)
            colour = chance.choice(("", *COLOURS)) if name == "selected" else ""
            source: str | Source = name
            if chance.random() < 0.25:
                source = self._draw_several()
                # Others get the messages that a group's owner does not select: then groups have no order.
                colour = "" if "grouped" in source.uri() else chance.choice(("", *COLOURS))
            selector = f"colour = '{colour}'" if colour else ""
            consumer = self.consumer(client, source, mode, prefetch, selector=selector)
            self.takers.append(Taker(client, [consumer], colour))
        elif draw < 0.75:
            consumer = self.consumer(
                client,
                destinations.topic(TOPICS[0]),
                mode,
                prefetch,
                subscription=DURABLE,
                is_durable=True,
                is_shared=True,
                is_global=True,
            )
            self._has_durable = True
            self.takers.append(Taker(client, [consumer]))
        elif draw < 0.85:
            consumer = self.consumer(client, destinations.source(TOPIC, "t.>"), mode, prefetch)
            self.takers.append(Taker(client, [consumer], is_reader=True))
        elif draw < 0.93:
            consumer = self.consumer(client, chance.choice(QUEUES), AUTO, prefetch, is_browser=True)
            self.takers.append(Taker(client, [consumer], is_reader=True))
        else:
            start = ReplayStart(place=FIRST)
            consumer = self.consumer(client, destinations.topic(TOPICS[1]), INDIVIDUAL, prefetch, replay=start)
            self.takers.append(Taker(client, [consumer], is_reader=True))
        how = "browses" if 0.85 <= draw < 0.93 else "replays" if draw >= 0.93 else "subscribes"
        self._note(f"{client.name} {how} {consumer.queue.uri()} {mode} {prefetch}")

    def _draw_several(self) -> Source:
        """Return the queues of a consumer of several."""
        destinations = self.broker.destinations
        if self.chance.random() < 0.3:
            return destinations.source(QUEUE, "Consumer.*.VirtualTopic.v")
        names = self.chance.sample(("plain", "grouped", "alone", "selected", "blocked"), 3)
        return CompositeSource([destinations.queue(name) for name in names])

    def _settle(self) -> None:
        holding = [taker for taker in self.takers if taker.held]
        for _ in range(self.chance.randint(1, 6)):
            if not holding:
                return
            taker = self.chance.choice(holding)
            delivery = self.chance.choice(taker.held[:3])
            is_ack = taker.is_reader or self.chance.random() < 0.7
            refusal = self.chance.choice(REFUSALS)
            if self._must_requeue(delivery):
                refusal = REQUEUE
            for one in covered_by(delivery):
                taker.held.remove(one)
                if is_ack:
                    if not taker.is_reader:
                        self._ended(one, "acknowledged")
                    self.broker.acknowledge(one)
                else:
                    self._note(f"refuse {uid_of(one.message)} {refusal.mode} {refusal.delay_ms}")
                    self._released(one)
                    self.broker.refuse(one, refusal)
            holding = [taker for taker in self.takers if taker.held]

    def _must_requeue(self, delivery: Delivery) -> bool:
        """Say whether a dead letter would not name its origin."""
        return queue_of(delivery.lane).name in VIRTUAL_QUEUES

    def _leave(self) -> None:
        if self.takers:
            taker = self.takers.pop(self.chance.randrange(len(self.takers)))
            for delivery in taker.held:
                self._released(delivery)
            self._note(f"{taker.client.name} leaves")
            self.broker.disconnect(taker.client, self.chance.random() < 0.5)
            self._gone(taker.client)

    def _gone(self, client: FakeClient) -> None:
        """Note the end of a connection, and everything that ends with it."""

    def _pause(self) -> None:
        if self.takers:
            client = self.chance.choice(self.takers).client
            if client.is_output_full:
                self.broker.output_drained(client)
            else:
                client.is_output_full = True

    def _pause_queue(self) -> None:
        """Pause a queue, or resume the one that is paused."""
        self._resume_queue()
        names = [name for name in self.queue_names() if name not in (DEAD, EXPIRED, ANSWERS)]
        if names and self.chance.random() < 0.5:
            name = self.chance.choice(names)
            self._note(f"pause {name}")
            self.pause(name)
            self._paused = self.queue(name)

    def _resume_queue(self) -> None:
        if self._paused is not None:
            self._note(f"resume {self._paused.name}")
            self.resume(self._paused.name)
            self._paused = None

    def _ask(self) -> None:
        """Ask the broker a question; its reply-to is a queue, another question, or a destination that ends early."""
        client = self.client("asks")
        reply = self.broker.open_temporary(client, TEMP_QUEUE)
        reply_to = self.chance.choice(
            (f"/queue/{ANSWERS}", f"/queue/{self.chance.choice(QUESTIONS)}", f"/remote-temp-queue/{reply.name}")
        )
        name = self.chance.choice(QUESTIONS)
        target = self.target(QUEUE, name)
        headers = f"AMQ_SCHEDULER_ACTION:BROWSE reply-to:{reply_to}".replace("ID:", "ID\\c")
        self._note(f"ask {name}, {reply_to}")
        self.broker.send(target, self.message(target, b"", persistent=False, headers=headers))
        self.broker.disconnect(client, is_lost=False)

    def _set_clock(self) -> None:
        """Set the wall clock."""
        by_ms = self.chance.choice((-3_000, -300, 300, 3_000))
        self._note(f"the wall clock is set by {by_ms} ms")
        self.clock.set_wall(by_ms)
        self.broker.begin_turn()

    def _crash(self) -> None:
        """Stop without closing once everything is durable, so that the expected state is known."""
        self._note("crash")
        self.crash_count += 1
        self.sync()
        self._look()
        self.sync()
        self.crash()
        self._paused = None
        self.takers = []
        for place in self.places.values():
            for sent in place.values():
                sent.holder = None
                sent.may_go = sent.may_go or not sent.is_persistent
        self._open_undertakers()

    def _open_undertakers(self) -> None:
        """Consume dead letters and expired messages at once."""
        self.dead = self.client("dead")
        self.consumer(self.dead, DEAD, AUTO, 1_000)
        self.expired = self.client("expired")
        self.consumer(self.expired, EXPIRED, AUTO, 1_000)
        self.answered = self.client("answered")
        self.consumer(self.answered, ANSWERS, AUTO, 1_000)

    # -- observations

    def _note(self, line: str) -> None:
        self.told.append(line)

    def _place_of(self, queue: Queue) -> str:
        subscription = queue.feed.subscription
        return DURABLE if subscription is not None else queue.name

    def _sent(self, message: Message, name: str) -> Sent:
        uid = uid_of(message)
        sent = self.places.get(name, {}).get(uid)
        if sent is None:
            raise Violation(f"message {uid} comes from {name}, where it was never sent to")
        return sent

    def _ended(self, delivery: Delivery, end: str) -> None:
        self._end(self._sent(delivery.message, self._place_of(queue_of(delivery.lane))), end)

    def _end(self, sent: Sent, end: str) -> None:
        if sent.end:
            raise Violation(f"message {sent.uid} is {end}, it was {sent.end}")
        if end == "expired" and not 0 < sent.expires_ms <= self.highest_ms:
            raise Violation(f"message {sent.uid} expired by {self.highest_ms}, it was to live until {sent.expires_ms}")
        self._note(f"{sent.uid} is {end}")
        sent.end = end
        sent.holder = None

    def _released(self, delivery: Delivery) -> None:
        name = self._place_of(queue_of(delivery.lane))
        if uid_of(delivery.message) in self.places.get(name, {}):
            self.places[name][uid_of(delivery.message)].holder = None

    def _look(self) -> None:
        """Take the deliveries and check them."""
        self.highest_ms = max(self.highest_ms, self.broker.wall_ms)
        for client, end in ((self.dead, "dead-lettered"), (self.expired, "expired")):
            for one in client.handed:
                self._moved(one.message, end)
            client.handed = []
        self.answer_count += len(self.answered.handed)
        self.answered.handed = []
        came = [(one, taker) for taker in self.takers for one in taker.client.handed]
        for taker in self.takers:
            taker.client.handed = []
        came.sort(key=lambda pair: pair[0].delivery.tag if pair[0].delivery is not None else 0)
        for one, taker in came:
            self.delivered_count += 1
            if taker.is_reader:
                if one.delivery is not None:
                    taker.held.append(one.delivery)
                continue
            self._delivered(one.message, one.consumer, taker)
            sent = self._sent(one.message, self._place_of(one.consumer.queue))
            if one.delivery is None:
                self._end(sent, "acknowledged")
            else:
                sent.holder = one.consumer
                taker.held.append(one.delivery)
        for taker in self.takers:
            for consumer in taker.consumers:
                if len(consumer.ledger) > max(1, consumer.window.prefetch):
                    raise Violation(f"{consumer.name} holds {len(consumer.ledger)} of {consumer.window.prefetch}")

    def _moved(self, message: Message, end: str) -> None:
        """Note a message on the dead-letter or the expiry queue; topics have no place of their own."""
        lines = message.annotations.splitlines()
        origin = next(line.removeprefix(ORIGIN).decode() for line in lines if line.startswith(ORIGIN))
        name = origin.removeprefix("/queue/")
        if origin == f"/topic/{TOPICS[0]}":
            name = DURABLE
        sent = self.places.get(name, {}).get(uid_of(message))
        if sent is not None and name != origin:
            if sent.holder is not None and end == "dead-lettered":
                raise Violation(f"message {sent.uid} is dead-lettered from {name} while a consumer has it")
            self._end(sent, end)

    def _delivered(self, message: Message, consumer: Consumer, taker: Taker) -> None:
        name = self._place_of(consumer.queue)
        sent = self._sent(message, name)
        what = f"message {sent.uid} on {name}"
        self._note(f"{taker.client.name} gets {sent.uid} of {name}")
        if consumer.queue is self._paused:
            raise Violation(f"{what} comes, and its queue is paused")
        if sent.end:
            raise Violation(f"{what} comes, it was {sent.end}")
        if sent.holder is not None:
            raise Violation(f"{what} is with two consumers at once")
        if sent.due_ms > self.highest_ms + TICK_MS:
            raise Violation(f"{what} comes {sent.due_ms - self.highest_ms} ms before its time")
        if taker.colour and sent.colour != taker.colour:
            raise Violation(f"{what} is {sent.colour}, asked for was {taker.colour}")
        if name == "alone" or (name == "grouped" and sent.group):
            rivals = [one for one in self.places[name].values() if name == "alone" or one.group == sent.group]
            others = [one.uid for one in rivals if one.holder is not None and one.holder is not consumer]
            if others:
                raise Violation(f"{what} goes to one consumer while another has {others}")

    def broker_options(self) -> dict[str, Any]:
        return super().broker_options() | {"expire_messages_period_ms": EXPIRY_PERIOD_MS}

    # -- the end

    def _expire_all(self) -> None:
        """Check that expired messages leave without a consumer, in memory and on the disk."""
        if self.chance.random() < 0.5:
            return
        while self.takers:
            taker = self.takers.pop()
            for delivery in taker.held:
                self._released(delivery)
            self.leave(taker.client)
            self._gone(taker.client)
            self._look()
        for number in range(SCANS_MOST):
            expired_ms = self.broker.wall_ms
            is_delayed = self._is_expired_delayed()
            self.advance(EXPIRY_PERIOD_MS)
            self._look()
            if number and not is_delayed:  # the last scan has met all
                break
        left = [
            f"{sent.uid} on {name}"
            for name, place in self.places.items()
            for sent in place.values()
            if 0 < sent.expires_ms <= expired_ms and not sent.end and not sent.may_go
        ]
        if left:
            raise Violation(f"has expired, and is there after two scans: {left[:10]}")

    def _is_expired_delayed(self) -> bool:
        """Say whether a message that has expired awaits redelivery: with little memory they come back one a second."""
        wall_ms = self.broker.wall_ms
        delayed = [one.message for queue in self.all_queues() for one in self.delayed(queue)]
        return any(0 < message.expires_ms <= wall_ms for message in delayed)

    def _finish(self) -> None:
        """Bring everything to its end with consumers that acknowledge."""
        while self.takers:
            taker = self.takers.pop()
            for delivery in taker.held:
                self._released(delivery)
            self.leave(taker.client)
            self._gone(taker.client)
            self._look()  # the remaining consumers get its messages
        for name in [name for name in self.queue_names() if name not in (DEAD, EXPIRED, ANSWERS)]:
            client = self.client(f"drains {name}")
            self.takers.append(Taker(client, [self.consumer(client, name, INDIVIDUAL, 20)]))
        if self._has_durable:
            client = self.client("drains the subscription")
            topic = self.topic(TOPICS[0])
            shared: dict[str, Any] = {"subscription": DURABLE, "is_durable": True, "is_shared": True, "is_global": True}
            self.takers.append(Taker(client, [self.consumer(client, topic, INDIVIDUAL, 20, **shared)]))
        for _ in range(DRAIN_ROUNDS):
            self.turn()
            self._look()
            for taker in self.takers:
                for delivery in taker.held:
                    self._ended(delivery, "acknowledged")
                    self.broker.acknowledge(delivery)
                taker.held.clear()
            if not self.total_depth() and self._is_unscheduled():
                break
            self.advance(100)
        self.turn()
        self._look()
        lost = [
            f"{sent.uid} on {name}"
            for name, place in self.places.items()
            for sent in place.values()
            if not sent.end and not sent.may_go
        ]
        if lost:
            raise Violation(f"never came: {lost[:10]}")
        self._check_zero()

    def _is_unscheduled(self) -> bool:
        return not len(self.schedule)

    def _check_zero(self) -> None:
        self.sync()
        for topic in self.topics():
            if topic.account is not None:
                topic.account.see_durable(self.memory_store)
        queues = self.all_queues()
        wrong = {queue.uri(): (queue.depth, queue.in_flight_count, queue.fates.delayed_count) for queue in queues}
        wrong = {uri: counts for uri, counts in wrong.items() if any(counts)}
        accounts = self.address_accounts()
        held = (self.memory_used(), accounts.used_bytes, accounts.used_messages)
        if wrong or any(held):
            raise Violation(f"everything has come to its end, and yet: {wrong}, {held}")


def uid_of(message: Message) -> int:
    return int(message.body.split()[0])


def run_seed(seed: int) -> FeatureWorld:
    world = FeatureWorld(seed)
    with telling("feature", seed, world.told):
        world.run()
    return world
