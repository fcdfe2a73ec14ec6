"""A simulation of topics and their subscriptions: seeded clients, crashes, and a model of the messages of each.

``World`` (world.py) follows queues; this world has durable and shared subscriptions, selectors and wildcards, on the
store in memory that keeps the contract of the one on disk.  Run one with

    SubscriptionWorld(seed).run()

It raises Violation as soon as a law is broken.  No confirmed message is missed.  None comes back after its settlement
is durable, none is in flight twice in one subscription, none reaches a subscription that did not ask for it.  First
deliveries keep the order of sending within a topic and priority.  No window is exceeded, and accounts return to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from engine.broker import Broker
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL, Consumer
from engine.values.delivery import Delivery, Refusal
from engine.values.destination import TOPIC
from engine.values.errors import SubscriptionInUse
from engine.values.wildcard import Wildcard
from tests.support.engine.broker_view import covered_by
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient
from tests.support.store.memory_store import MemoryStore
from tests.support.world.bodies import Violation
from tests.support.world.seeds import telling

TOPICS = ("t.a", "t.b", "u")
SOURCES = ("t.a", "t.b", "u", "t.>", "t.*")
REQUEUE = Refusal("requeue")


@dataclass(slots=True)
class Published:
    """A message.  offset: log offset at which it is durable; 0 for one that is not logged."""

    uid: int
    topic: str
    colour: str
    priority: int
    is_persistent: bool
    offset: int


@dataclass(slots=True, eq=False)
class Model:
    """One named subscription.  expected: those it must still get; settled: uid -> append offset after its settlement.

    opened: append offset after it was opened.  holders: uid -> consumer that has it.
    """

    client_id: str
    name: str
    source: str
    colour: str
    is_durable: bool
    is_shared: bool
    opened: int
    expected: dict[int, Published] = field(default_factory=dict)
    settled: dict[int, int] = field(default_factory=dict)
    settled_message: dict[int, Published] = field(default_factory=dict)
    holders: dict[int, Consumer] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    last: dict[tuple[str, int], int] = field(default_factory=dict)
    consumers: list[Consumer] = field(default_factory=list)

    def wants(self, published: Published) -> bool:
        matches = Wildcard(TOPIC, self.source).matches(published.topic)
        return matches and (not self.colour or published.colour == self.colour)


class SubscriptionWorld(RestartWorld):
    """broker_class, wrap: a planted bug's replacements for the product's parts."""

    def __init__(
        self,
        seed: int,
        broker_class: type[Broker] = Broker,
        wrap: Callable[[MemoryStore], MemoryStore] = lambda store: store,
    ) -> None:
        self.broker_class = broker_class
        self.wrap = wrap
        super().__init__(
            address(
                ">",
                dead_letter_address=None,
                redelivery__maximum_redeliveries=-1,
                redelivery__initial_redelivery_delay_ms=50,
                redelivery__redelivery_delay_ms=50,
            )
        )
        self.chance = Random(seed)
        self.published: dict[int, Published] = {}
        self.models: dict[tuple[str, str], Model] = {}
        self.deleted: list[tuple[int, Model]] = []
        self.clients: dict[str, FakeClient] = {}
        self.crash_count = 0
        self.delivered_count = 0

    def _start(self) -> None:
        self.memory_store = self.wrap(self.memory_store)
        super()._start()

    def run(self, steps: int = 250) -> None:
        """Raises: Violation."""
        for _ in range(steps):
            self._step()
            self._collect()
        self._finish()

    # -- actions

    def _step(self) -> None:
        draw = self.chance.random()
        if draw < 0.4:
            self._publish()
        elif draw < 0.55:
            self._subscribe()
        elif draw < 0.8:
            self._settle()
        elif draw < 0.85:
            self._leave()
        elif draw < 0.88:
            self._delete()
        elif draw < 0.95:
            self.sync()
        elif draw < 0.98:
            self.advance(self.chance.choice((1, 30, 200)))
        else:
            self._crash()

    def _publish(self) -> None:
        chance = self.chance
        for _ in range(chance.randint(1, 8)):
            uid = len(self.published) + 1
            name = chance.choice(TOPICS)
            priority = 4 if chance.random() < 0.8 else chance.choice((0, 9))
            is_persistent = chance.random() < 0.85
            colour = chance.choice(("red", "blue"))
            topic = self.topic(name)
            size = chance.choice((1, 50, 5_000))
            message = self.message(
                topic,
                b"%d " % uid + b"x" * size,
                persistent=is_persistent,
                priority=priority,
                headers=f"colour:{colour}",
            )
            self.broker.send(topic, message)
            offset = self.memory_store.append_offset() if is_persistent else 0
            published = self.published[uid] = Published(uid, name, colour, priority, is_persistent, offset)
            for model in self.models.values():
                if model.wants(published):
                    model.expected[uid] = published
        if chance.random() < 0.7:
            self.turn()

    def _client(self, client_id: str) -> FakeClient:
        client = self.clients.get(client_id)
        if client is None:
            client = self.clients[client_id] = self.client(client_id=client_id)
        return client

    def _subscribe(self) -> None:
        chance = self.chance
        client_id, name = chance.choice(("a", "b")), chance.choice(("s1", "s2"))
        key = (client_id, name)
        model = self.models.get(key)
        if model is None:
            is_shared = chance.random() < 0.4
            model = Model(
                client_id,
                name,
                chance.choice(SOURCES),
                chance.choice(("", "", "red")),
                not is_shared or chance.random() < 0.7,
                is_shared,
                0,
            )
        source = self.source(TOPIC, model.source)
        mode = chance.choice((AUTO, CLIENT, INDIVIDUAL, INDIVIDUAL))
        client = self._client(client_id)
        is_refused = bool(model.consumers) and not model.is_shared
        try:
            consumer = self.consumer(
                client,
                source,
                mode,
                chance.choice((1, 3, 50)),
                subscription=name,
                is_durable=model.is_durable,
                is_shared=model.is_shared,
                selector=f"colour = '{model.colour}'" if model.colour else "",
            )
        except SubscriptionInUse:
            if not is_refused:
                raise
            return
        if is_refused:
            raise Violation(f"{key} has two consumers at once")
        if key not in self.models:
            self.models[key] = model
            model.opened = self.memory_store.append_offset()
        consumer.adapter = model
        if consumer.siblings is not None:
            for one in consumer.siblings.members:
                one.adapter = model
        model.consumers.append(consumer)
        self.turn()

    def _settle(self) -> None:
        chance = self.chance
        held = [
            delivery for model in self.models.values() for one in model.consumers for delivery in one.ledger.values()
        ]
        if not held:
            return
        for _ in range(chance.randint(1, 6)):
            delivery = chance.choice(held)
            consumer = delivery.consumer
            if not isinstance(consumer, Consumer) or delivery.tag not in consumer.ledger:
                continue
            model = consumer.adapter
            assert isinstance(model, Model)
            covered = covered_by(delivery)
            is_ack = chance.random() < 0.8
            for one in covered:
                uid = _uid(one)
                del model.holders[uid]
                if is_ack:
                    self.broker.acknowledge(one)
                    self._gone(model, uid)
                else:
                    self.broker.refuse(one, REQUEUE if chance.random() < 0.5 else Refusal())
        self.turn()

    def _gone(self, model: Model, uid: int) -> None:
        model.settled[uid] = 0  # known once its record is appended
        model.settled_message[uid] = model.expected.pop(uid)

    def _leave(self) -> None:
        chance = self.chance
        if not self.clients:
            return
        client_id = chance.choice(sorted(self.clients))
        client = self.clients[client_id]
        if chance.random() < 0.5:
            open_models = [model for model in self.models.values() if model.client_id == client_id and model.consumers]
            if open_models:
                model = chance.choice(open_models)
                self._closed(model, model.consumers[0])
                self.broker.unsubscribe(model.consumers.pop(0), is_lost=False)
                self._end_if_volatile(model)
        else:
            for model in list(self.models.values()):
                if model.client_id == client_id:
                    for consumer in model.consumers:
                        self._closed(model, consumer)
            self.broker.disconnect(client, chance.random() < 0.5)
            del self.clients[client_id]
            for model in list(self.models.values()):
                if model.client_id == client_id and model.consumers:
                    model.consumers = []
                    self._end_if_volatile(model)
        self.turn()

    def _closed(self, model: Model, consumer: Consumer) -> None:
        members = consumer.siblings.members if consumer.siblings is not None else [consumer]
        for uid in [uid for uid, holder in model.holders.items() if any(holder is one for one in members)]:
            del model.holders[uid]

    def _end_if_volatile(self, model: Model) -> None:
        if not model.is_durable and not model.consumers:
            del self.models[model.client_id, model.name]

    def _delete(self) -> None:
        idle = [model for model in self.models.values() if model.is_durable and not model.consumers]
        if idle:
            model = self.chance.choice(idle)
            self.delete_subscription(model.client_id, model.name)
            del self.models[model.client_id, model.name]
            self.deleted.append((self.memory_store.append_offset(), model))

    def _crash(self) -> None:
        """Start again with the durable state; the model forgets the rest, as it may or must."""
        durable = self.memory_store.durable_offset()
        self.crash_count += 1
        self.crash()
        self.clients = {}
        found = self.subscriptions()
        for key, model in list(self.models.items()):
            if not model.is_durable or model.opened > durable:
                del self.models[key]
        for offset, model in self.deleted:
            if offset > durable >= model.opened:
                self.models[model.client_id, model.name] = model  # its deletion is lost
        self.deleted = []
        for key, model in self.models.items():
            if (*key, True) not in found:
                raise Violation(f"durable subscription {key} is gone after a crash")
            model.consumers = []
            model.holders = {}
            for uid, offset in list(model.settled.items()):
                message = model.settled_message[uid]
                if (offset == 0 or offset > durable) and message.is_persistent:
                    del model.settled[uid]
                    model.expected[uid] = message
            for uid, message in list(model.expected.items()):
                if not message.is_persistent or message.offset > durable:
                    del model.expected[uid]
        self.turn()

    # -- observations of clients

    def _collect(self) -> None:
        for client in self.clients.values():
            handed = client.handed
            client.handed = []
            for one in handed:
                model = one.consumer.adapter
                if not isinstance(model, Model):
                    raise Violation("a delivery for a consumer without a subscription")
                self._delivered(model, one.consumer, int(one.body.split()[0]), one.delivery is None)
        for model in self.models.values():
            if not self.is_settling():
                for uid, offset in model.settled.items():
                    if offset == 0:
                        model.settled[uid] = self.memory_store.append_offset()
            for consumer in model.consumers:
                if len(consumer.ledger) > consumer.window.limit:
                    raise Violation(f"{model.name} holds {len(consumer.ledger)} of {consumer.window.limit}")

    def _delivered(self, model: Model, consumer: Consumer, uid: int, is_settled: bool) -> None:
        self.delivered_count += 1
        what = f"message {uid} for {model.client_id}:{model.name}"
        if uid not in model.expected:
            raise Violation(f"{what} comes back" if uid in model.settled else f"{what} was never for it")
        if uid in model.holders:
            raise Violation(f"{what} is in flight twice")
        published = model.expected[uid]
        if uid not in model.seen:
            model.seen.add(uid)
            place = (published.topic, published.priority)
            if uid < model.last.get(place, 0):
                raise Violation(f"{what} comes after {model.last[place]}")
            model.last[place] = uid
        if is_settled:
            self._gone(model, uid)
        else:
            model.holders[uid] = consumer

    # -- the end

    def _finish(self) -> None:
        for client in list(self.clients.values()):
            self.broker.disconnect(client, is_lost=False)
        self.clients = {}
        for key, model in list(self.models.items()):
            model.consumers = []
            model.holders = {}
            if not model.is_durable:
                del self.models[key]
        self.turn()
        for model in self.models.values():
            client = self._client(f"{model.client_id}")
            consumer = self.consumer(
                client,
                self.source(TOPIC, model.source),
                AUTO,
                subscription=model.name,
                is_durable=True,
                is_shared=model.is_shared,
                selector=f"colour = '{model.colour}'" if model.colour else "",
            )
            for one in consumer.siblings.members if consumer.siblings is not None else [consumer]:
                one.adapter = model
            self.turn()
            self.advance(1_000)
            self._collect()
            if model.expected:
                raise Violation(f"{model.client_id}:{model.name} never got {sorted(model.expected)[:20]}")
        self.sync()
        depths = {queue.uri(): queue.depth for queue in self.feeds() if queue.depth}
        if depths or self.memory_used():
            raise Violation(f"everything is settled, and yet: {depths}, {self.memory_used()} octets")
        self.crash()
        depths = {queue.uri(): queue.depth for queue in self.feeds() if queue.depth}
        if depths:
            raise Violation(f"after a restart there wait {depths}")


def _uid(delivery: Delivery) -> int:
    return int(delivery.message.body.split()[0])


def run_seed(seed: int) -> SubscriptionWorld:
    world = SubscriptionWorld(seed)
    with telling("subscription", seed):
        world.run()
    return world
