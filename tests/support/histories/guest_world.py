"""``FeatureWorld`` with guests: connections that own temporary queues, wait, hold much, or are still leaving.

- Temporary queues that hold messages, delayed ones too, sent in transactions that may end after the queue has.
- Producers that wait at an address with ``block-timeout-ms``: each is admitted or gets an error in time.
- Durable subscriptions with an owner; another user is refused, and the same client id comes back while the connection
  that had it still returns its deliveries.
- Turns with hardly any steps, so that departures and joins continue in later ones; consumers of several destinations
  that close meanwhile.
- Connections that hold more than the limit for all of them.
- Temporary files whose messages expire, and expiry on topics.

All laws of FeatureWorld hold; and in the end nobody waits, nothing is scheduled, and no file is left.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from config.matching import AddressEntry
from engine.broker import Broker
from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Destination, Target
from engine.sources.queue import Queue, queue_of
from engine.sources.topics.named_subscription import NamedSubscription
from engine.store.disk.spill_files import SpillFiles
from engine.values import gates
from engine.values.delivery import Delivery
from engine.values.destination import TEMP_QUEUE, TOPIC
from engine.values.errors import AccessDenied, EngineError
from engine.values.message import Message
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.engine.engine_world import address
from tests.support.fakes import FakeClient, HeldWorkers
from tests.support.histories.feature_world import EXPIRY_PERIOD_MS, FeatureWorld, Sent, Taker
from tests.support.world.bodies import Violation

WAITING: Final = "waiting"
WAIT_MS: Final = 150
SPILLED: Final = "spilled"
OWN_TOPIC: Final = "owned"
OWN: Final = "own"  # name of the durable subscription of each client id
USERS: Final = {"ann": "ann's login", "bob": "bob's login"}  # by client id
LITTLE_STEPS: Final = (0, 1, 12)  # steps left in a turn that others have used up
HOLDINGS_BYTES: Final = 4 << 20
BLOCK_BYTES: Final = 6_000


class Guest(FakeClient):
    """parked: the message that it could not send, and its record.  since_ms: of the wait.  given_up: it must end."""

    def __init__(self, world: GuestWorld, name: str, client_id: str) -> None:
        super().__init__(name, client_id)
        self.world = world
        self.parked: tuple[Target, Message, Sent] | None = None
        self.since_ms = 0
        self.is_given_up = False

    def admit(self) -> None:
        super().admit()
        self.world.send_parked(self)

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        super().waited_too_long(uri, error)
        assert self.parked is not None, "what waits is there"
        self.parked = None

    def give_up(self, error: EngineError) -> None:
        self.is_given_up = True


class GuestWorld(FeatureWorld):
    """temporaries: number of a client -> names of its temporary queues.  open: transactions with their messages."""

    more_addresses: tuple[AddressEntry, ...] = (
        address(WAITING, full__address_full_policy="BLOCK", full__max_size_messages=3, full__block_timeout_ms=WAIT_MS),
        address(SPILLED, full__max_size_bytes=2_000),
        # A dead letter would not name its subscription.
        address(OWN_TOPIC, blame="none", redelivery__maximum_redeliveries=-1, expiry_address=None),
    )

    def __init__(self, seed: int, broker_class: type[Broker] = Broker) -> None:
        self.files = FaultyFiles()
        self.guests: list[Guest] = []
        self.temporaries: dict[int, list[str]] = {}
        self.open: list[tuple[Transaction, list[tuple[str, Sent, int]]]] = []
        self.owned: set[str] = set()  # client ids with a durable subscription
        self.counts: dict[str, int] = {}
        self.draws = Random(seed * 31 + 7)
        super().__init__(seed, broker_class)

    def broker_options(self) -> dict[str, Any]:
        self.spill_workers = HeldWorkers()
        space = SpillFiles(self.files, "data", self.spill_workers)
        mine = {"spill_space": space, "connection_memory_bytes": HOLDINGS_BYTES}
        return super().broker_options() | mine

    def _start(self) -> None:
        super()._start()
        spiller = self.broker.spiller
        assert spiller is not None
        spiller.block_bytes = BLOCK_BYTES

    def turn(self) -> int:
        while True:
            offset = super().turn()
            if not self.spill_workers.jobs:
                return offset
            self.spill_workers.run_all()

    # -- actions

    def _step(self) -> None:
        draws = self.draws
        if draws.random() < 0.3:
            self.leave_steps(draws.choice(LITTLE_STEPS))
        draw = draws.random()
        if draw < 0.6:
            super()._step()
        elif draw < 0.66:
            self._bring_temporary()
        elif draw < 0.76:
            self._send_to_temporary()
        elif draw < 0.80:
            self._end_transaction()
        elif draw < 0.86:
            self._wait()
        elif draw < 0.90:
            self._subscribe_own()
        elif draw < 0.93:
            self._publish_own()
        elif draw < 0.96:
            self._send_to_files()
        elif draw < 0.98:
            self._glance()
        else:
            self._hold()
        self._send_away()

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        self._note(what)

    def guest(self, client_id: str = "") -> Guest:
        guest = Guest(self, f"g{self._next_uid}", client_id)
        self._next_uid += 1
        guest.user = USERS.get(client_id, "")
        self.broker.connect(guest)
        self.guests.append(guest)
        return guest

    def _draw_guest(self) -> Guest:
        if len(self.guests) < 3 or (len(self.guests) < 6 and self.draws.random() < 0.3):
            return self.guest()
        return self.draws.choice(self.guests)

    def _bring_temporary(self) -> None:
        guest = self._draw_guest()
        queue = self.broker.open_temporary(guest, TEMP_QUEUE)
        self.temporaries.setdefault(guest.client_number, []).append(queue.name)
        self._count("brings a temporary queue")
        if self.draws.random() < 0.5 and not any(taker.client is guest for taker in self.takers):
            assert isinstance(queue, Queue)
            consumer = self.consumer(guest, queue, INDIVIDUAL, self.draws.choice((1, 3)))
            self.takers.append(Taker(guest, [consumer]))

    def _send_to_temporary(self) -> None:
        """Send outside of transactions or in one, now or later."""
        names = [name for some in self.temporaries.values() for name in some]
        if not names:
            return
        draws = self.draws
        name = draws.choice(names)
        queue = self.temporary(TEMP_QUEUE, name)
        delay_ms = draws.choice((0, 0, 40, 900))
        destination: Destination = delayed(queue, Plan(delay_ms)) if delay_ms else queue
        message, sent = self._make(destination, delay_ms)
        sent.group = ""
        if draws.random() < 0.5:
            if self.broker.send(destination, message) == gates.OPEN:
                self._accepted([name], sent)
                self._count(f"sends to a temporary queue in {delay_ms}")
            return
        if not self.open or draws.random() < 0.4:
            self.open.append((Transaction(FakeClient(), "o", TransactionLimits()), []))
        transaction, sends = draws.choice(self.open)
        self.broker.send_in(transaction, destination, message)
        sends.append((name, sent, delay_ms))
        self._count(f"sends to a temporary queue in a transaction, in {delay_ms}")

    def _end_transaction(self) -> None:
        if not self.open:
            return
        transaction, sends = self.open.pop(self.draws.randrange(len(self.open)))
        if self.draws.random() < 0.2 or self.broker.commit_refusal(transaction)[0] != gates.OPEN:
            self.broker.abort(transaction)
            return
        self.broker.commit(transaction)
        there = {name for names in self.temporaries.values() for name in names}
        for name, sent, delay_ms in sends:
            sent.due_ms = self.broker.wall_ms + delay_ms if delay_ms else 0  # counted from the COMMIT on
            if name in there:
                self._accepted([name], sent)
        self._count("commits" if all(name in there for name, _, _ in sends) else "commits to what has gone")

    def _wait(self) -> None:
        """Send to an address that blocks; a refused sender waits for a while."""
        guest = self._draw_guest()
        queue = self.queue(WAITING)
        for _ in range(self.draws.randint(1, 3)):
            if guest.parked is not None:
                return
            message, sent = self._make(queue, 0)
            guest.parked = (queue, message, sent)
            self.send_parked(guest)

    def send_parked(self, guest: Guest) -> None:
        if guest.parked is None:
            return
        queue, message, sent = guest.parked
        self.hear(guest.client_number)
        gate = self.broker.send(queue, message)
        self.hear(0)
        if gate == gates.OPEN:
            guest.parked = None
            self._accepted([WAITING], sent)
            return
        if gate == gates.ADDRESS_FULL and not self.waits_of(guest) and not guest.since_ms:
            guest.since_ms = self.clock.monotonic_ms()
        assert isinstance(queue, Queue)
        self.park(guest, gate, queue)
        self._count("waits for room")

    def _subscribe_own(self) -> None:
        """Let a client id resume its durable subscription, perhaps while the connection that had it is leaving."""
        client_id = self.draws.choice(sorted(USERS))
        for taker in [taker for taker in self.takers if taker.client.client_id == client_id]:
            self._take_away(taker)
            self._count("comes back at once")
        guest = self.guest(client_id)
        self.take_client_id(guest, client_id)
        options: dict[str, Any] = {"subscription": OWN, "is_durable": True}
        topic = self.topic(OWN_TOPIC)
        if client_id in self.owned and self.draws.random() < 0.3:
            guest.user = "somebody else"
            try:
                self.consumer(guest, topic, INDIVIDUAL, 3, **options)
            except AccessDenied:
                self._count("is not the owner")
            else:
                raise Violation(f"the subscription of {client_id} was taken by another user")
            self._disconnect(guest)
            return
        self.takers.append(Taker(guest, [self.consumer(guest, topic, INDIVIDUAL, 3, **options)]))
        self.owned.add(client_id)

    def _publish_own(self) -> None:
        topic = self.topic(OWN_TOPIC)
        for _ in range(self.draws.randint(1, 4)):
            message, sent = self._make(topic, 0)
            if self.draws.random() < 0.3:
                message.expires_ms = sent.expires_ms = self.broker.wall_ms + self.draws.choice((40, 400))
            if self.broker.send(topic, message) == gates.OPEN:
                sent.may_go = sent.expires_ms > 0  # it has no destination, so nobody sees it
                self._accepted([f"{client_id}:{OWN}" for client_id in sorted(self.owned)], sent)

    def _send_to_files(self) -> None:
        queue = self.queue(SPILLED)
        for _ in range(self.draws.randint(1, 12)):
            message, sent = self._make(queue, 0)
            message.flags = 0
            sent.is_persistent = False
            if self.draws.random() < 0.5:
                message.expires_ms = sent.expires_ms = self.broker.wall_ms + self.draws.choice((40, 400, 70_000))
            if self.broker.send(queue, message) == gates.OPEN:
                self._accepted([SPILLED], sent)
        spiller = self.broker.spiller
        assert spiller is not None
        if spiller.blocks.spilled_bytes:
            self._count("has spilled")
        if self.draws.random() < 0.3 and len(self.takers) < 9:
            client = self.client(f"reads{self._next_uid}")
            self.takers.append(Taker(client, [self.consumer(client, queue, INDIVIDUAL, 2)]))

    def _glance(self) -> None:
        """Subscribe to several destinations, and close before all of them are joined, or soon after."""
        client = self.client(f"glances{self._next_uid}")
        self.leave_steps(self.draws.choice(LITTLE_STEPS))
        source = self.source(TOPIC, "t.>") if self.draws.random() < 0.3 else self._draw_several()
        consumer = self.consumer(client, source, INDIVIDUAL, 2)
        if self.draws.random() < 0.5:
            self.leave_steps(self.draws.choice(LITTLE_STEPS))
            self.turn_once()
        if self.draws.random() < 0.5:
            self.broker.unsubscribe(consumer, False)
        self.broker.disconnect(client, self.draws.random() < 0.5)
        self._count("glances")

    def turn_once(self) -> None:
        self.broker.end_turn()
        self.broker.begin_turn()

    def _hold(self) -> None:
        guest = self._draw_guest()
        size = self.draws.choice((0, 100_000, 500_000, 1_500_000, 3_000_000))
        if self.draws.random() < 0.5:
            self.leave_unread(guest, size)
        else:
            self.hold_by(guest, size)

    def _send_away(self) -> None:
        """End the connections that the engine expelled, and some others."""
        for guest in [guest for guest in self.guests if guest.is_given_up]:
            self._count("is given up")
            self._end_guest(guest)
        if self.guests and self.draws.random() < 0.04:
            self._end_guest(self.draws.choice(self.guests))

    def _end_guest(self, guest: Guest) -> None:
        takers = [taker for taker in self.takers if taker.client is guest]
        if takers:
            self._take_away(takers[0])
        else:
            self._disconnect(guest)

    def _take_away(self, taker: Taker) -> None:
        self.takers.remove(taker)
        for delivery in taker.held:
            self._released(delivery)
        self._disconnect(taker.client)

    def _disconnect(self, client: FakeClient) -> None:
        self.broker.disconnect(client, self.draws.random() < 0.5)
        self._gone(client)

    def _gone(self, client: FakeClient) -> None:
        self.leave_unread(client, 0)  # its socket is
        for name in self.temporaries.pop(client.client_number, []):
            for sent in self.places.get(name, {}).values():
                if not sent.end:
                    sent.end = "dropped"
                    sent.holder = None
        self.guests = [guest for guest in self.guests if guest is not client]

    def _crash(self) -> None:
        for transaction, _ in self.open:
            self.broker.abort(transaction)
        self.open = []
        self.turn()
        while self.is_more_to_come():  # the rest of earlier turns is observed before the end
            self._look()
            self.advance(0)
        self._look()
        super()._crash()
        for guest in list(self.guests):
            guest.unread_bytes = 0  # they end with the process
            self._gone(guest)

    def _must_requeue(self, delivery: Delivery) -> bool:
        queue = queue_of(delivery.lane)
        return super()._must_requeue(delivery) or not queue.feed.is_own or queue.kind == TEMP_QUEUE

    # -- observations

    def _place_of(self, queue: Queue) -> str:
        subscription = queue.feed.subscription
        if isinstance(subscription, NamedSubscription) and subscription.name == OWN:
            return subscription.full_name()
        return super()._place_of(queue)

    def _look(self) -> None:
        super()._look()
        broker = self.broker
        for guest in self.guests:
            wait = self.waits_of(guest)
            if (guest.parked is None) != (not wait):
                raise Violation(f"{guest.name} {'waits for nothing' if wait else 'is forgotten where it waits'}")
            for one in wait:
                waited_ms = self.clock.monotonic_ms() - one.since_ms
                if one.gate == gates.ADDRESS_FULL and waited_ms > WAIT_MS:
                    raise Violation(f"{guest.name} has waited {waited_ms} ms, allowed are {WAIT_MS}")
        holdings = broker.holdings
        if holdings.used_bytes > holdings.limit_bytes:
            raise Violation(f"connections hold {holdings.used_bytes} octets after a turn")
        if holdings.used_bytes != sum(client.all_held_bytes() for client in self.connections()):
            raise Violation("what connections hold is not what is counted")

    def _delivered(self, message: Message, consumer: Consumer, taker: Taker) -> None:
        super()._delivered(message, consumer, taker)
        if consumer.queue.kind == TEMP_QUEUE and consumer.queue.owner != consumer.client.client_number:
            raise Violation(f"{taker.client.name} gets what was sent to the temporary queue of another connection")

    # -- the end

    def _expire_all(self) -> None:
        super()._expire_all()
        if self.takers:
            return
        expired_ms = self.broker.wall_ms - EXPIRY_PERIOD_MS
        for queue in self.feeds():
            name = self._place_of(queue) if queue.name == OWN_TOPIC else ""
            alive = [
                sent
                for sent in self.places.get(name, {}).values()
                if not sent.end and not 0 < sent.expires_ms <= expired_ms
            ]
            if name and queue.depth > len(alive):
                raise Violation(f"{name} has {queue.depth} messages, at most {len(alive)} have not expired")

    def _finish(self) -> None:
        for transaction, _ in self.open:
            self.broker.abort(transaction)
        self.open = []
        for client_id in sorted(self.owned):
            for taker in [taker for taker in self.takers if taker.client.client_id == client_id]:
                self._take_away(taker)
            guest = self.guest(client_id)
            self.take_client_id(guest, client_id)
            self.broker.delete_subscription(guest, client_id, OWN)
            for sent in self.places.get(f"{client_id}:{OWN}", {}).values():
                sent.end = sent.end or "dropped"
        for guest in list(self.guests):
            if guest.parked is None or guest.client_number in self.temporaries:
                self._end_guest(guest)
        super()._finish()

    def _is_unscheduled(self) -> bool:
        return super()._is_unscheduled() and not any(guest.parked for guest in self.guests)

    def _check_zero(self) -> None:
        self.advance(2 * WAIT_MS)
        for guest in list(self.guests):
            self._disconnect(guest)
        self.advance(1)
        super()._check_zero()
        broker = self.broker
        spiller = broker.spiller
        assert spiller is not None
        left = {
            "scheduled": len(self.schedule),
            "waiting": len(self.waits()),
            "chores": len(self.chores()),
            "held": self.held_by_connections(),
            "spilled": spiller.blocks.spilled_bytes + spiller.blocks.gathered_bytes,
            "files": len(self.files.paths(".spill")),
            "temporary": self.temporary_count(),
        }
        if any(left.values()):
            raise Violation(f"everything has come to its end, and yet: {left}")
