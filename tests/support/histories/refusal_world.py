"""``GuestWorld`` with refusals that continue through many turns, beside all other events of a queue.

- Clients refuse or roll back all or some of their deliveries, and the next turns have hardly any steps left.
- Meanwhile queues are purged and deleted, messages expire, slow consumers are ended, consumers close and their clients
  stay, and heirs come to exclusive queues, to groups and to queues whose redeliveries block them.

All laws of GuestWorld hold, and these:

- Where order is promised, no message is delivered while an earlier one waits, even if its consumer has left.
- After each turn, a queue's in-flight count is the number of messages that consumers hold or that were refused and are
  not back yet.
- A purge drops exactly the messages that never come, and none that a consumer holds.
"""

from __future__ import annotations

from typing import Final

from config.matching import AddressEntry
from engine.broker import Broker
from engine.consumers.consumer import CLIENT, INDIVIDUAL, Consumer, consumer_of
from engine.features.purge import Purge
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import IN_FLIGHT
from engine.values.errors import DestinationInUse
from engine.values.message import Message
from tests.support.engine.engine_world import address
from tests.support.engine.rest_law import waiting
from tests.support.histories.feature_world import DEAD, ORIGIN, QUEUES, REFUSALS, REQUEUE, Sent, Taker, uid_of
from tests.support.histories.guest_world import LITTLE_STEPS, GuestWorld
from tests.support.world.bodies import Violation
from tests.support.world.seeds import telling

ORDERED: Final = "ordered"  # a queue whose redeliveries block it
SLOW: Final = "slow"  # an address that ends consumers that are full while messages wait
BUSY: Final = ("alone", "grouped", "plain", ORDERED, SLOW)
PURGED: Final = (*BUSY, "selected", "blocked", "expiring", "later")
TAKERS_MAX: Final = 9


class RefusalWorld(GuestWorld):
    """lean_turns: next turns with hardly any steps.  purges: of queues, by name; running: those not ended.

    deleted: names of queues that were deleted and perhaps made again.
    """

    more_addresses: tuple[AddressEntry, ...] = (
        *GuestWorld.more_addresses,
        address(ORDERED, redelivery__non_blocking_redelivery=False),
        address(
            SLOW,
            slow_consumers__abort="slow",
            slow_consumers__abort_check_period_ms=100,
            slow_consumers__max_slow_duration_ms=150,
        ),
    )

    def __init__(self, seed: int, broker_class: type[Broker] = Broker) -> None:
        self.lean_turns = 0
        self.purges: dict[str, list[Purge]] = {}
        self.running: list[Purge] = []
        self.deleted: set[str] = set()
        self.has_operator = seed % 2 == 0  # what is purged may be missing, so other runs look for all messages
        super().__init__(seed, broker_class)

    def turn(self) -> int:
        self._be_lean()
        return super().turn()

    def turn_once(self) -> None:
        self._be_lean()
        super().turn_once()

    def _be_lean(self) -> None:
        if self.lean_turns > 0:
            self.lean_turns -= 1
            self.leave_steps(self.draws.choice(LITTLE_STEPS))

    # -- actions

    def _step(self) -> None:
        draw = self.draws.random()
        if draw < 0.09:
            self._send_many()
        elif draw < 0.17:
            self._take_many()
        elif draw < 0.33:
            self._refuse_many()
        elif draw < 0.38 and self.has_operator:
            self._purge()
        elif draw < 0.43 and self.has_operator:
            self._delete()
        elif draw < 0.47:
            self._let_expire()
        elif draw < 0.53:
            self._close_one()
        else:
            super()._step()
        self._end_expelled()

    def _send_many(self) -> None:
        name = self.draws.choice(BUSY)
        queue = self.queue(name)
        for _ in range(self.draws.randint(3, 25)):
            message, sent = self._make(queue, 0)
            if self.broker.send(queue, message) == gates.OPEN:
                self._note(f"send {sent.uid} to {name}")
                self._accepted([name], sent)

    def _take_many(self) -> None:
        if len(self.takers) >= TAKERS_MAX:
            return
        draws = self.draws
        client = self.client(f"takes{self._next_uid}")
        self._next_uid += 1
        consumers = [
            self.consumer(client, name, draws.choice((CLIENT, INDIVIDUAL)), 25)
            for name in draws.sample(BUSY, draws.randint(1, 2))
        ]
        self._note(f"{client.name} takes from {[consumer.queue.name for consumer in consumers]}")
        self.takers.append(Taker(client, consumers))

    def _refuse_many(self) -> None:
        """Refuse or roll back all or some deliveries of a client, in turns without steps for that."""
        draws = self.draws
        takers = [taker for taker in self.takers if taker.held and not taker.is_reader]
        if not takers:
            return
        taker = draws.choice(takers)
        deliveries = [one for one in taker.held if one.state == IN_FLIGHT]
        if draws.random() < 0.4:
            deliveries = draws.sample(deliveries, draws.randint(0, len(deliveries)))
        refusal = REQUEUE if any(map(self._must_requeue, deliveries)) else draws.choice(REFUSALS)
        self.lean_turns = draws.randint(1, 8)
        self._be_lean()
        for one in deliveries:
            taker.held.remove(one)
            self._released(one)
        if refusal is REQUEUE or draws.random() < 0.7:
            self.broker.refuse_all(deliveries, refusal)
        else:
            self.broker.roll_back(deliveries)
        if taker.client.is_refusing:
            self._count("refuses")
            if draws.random() < 0.3:
                self._forsake(taker)
                if draws.random() < 0.3 and self.has_operator:
                    self._delete()
            if draws.random() < 0.5:
                self.turn_once()
                self._look()

    def _close_one(self) -> None:
        """Close a consumer of a client that stays, or close it twice, or end the client at once."""
        if self.takers:
            self._forsake(self.draws.choice(self.takers))

    def _forsake(self, taker: Taker) -> None:
        consumer = self.draws.choice(taker.consumers)
        if consumer.is_closed:
            return
        self._close(taker, consumer)
        if len(taker.consumers) == 1 or self.draws.random() < 0.3:
            self._count("leaves while it refuses" if taker.client.is_refusing else "leaves")
            self._take_away(taker)

    def _close(self, taker: Taker, consumer: Consumer) -> None:
        """Close a consumer like a session: forget its deliveries and close it, perhaps twice."""
        members = [consumer] if consumer.siblings is None else consumer.siblings.members
        for one in [one for one in taker.held if one.consumer in members]:
            taker.held.remove(one)
            self._released(one)
        self._count("closes while its client refuses" if taker.client.is_refusing else "closes")
        for _ in range(self.draws.choice((1, 1, 2))):
            if not consumer.is_closed:
                self.broker.unsubscribe(consumer, self.draws.random() < 0.3)

    def _end_expelled(self) -> None:
        """Close consumers that the engine has ended as too slow, like their adapter."""
        if any(taker.client.expelled for taker in self.takers):
            self._look()
        for taker in self.takers[:]:
            for consumer, _, _ in taker.client.expelled:
                if consumer.queue.name == SLOW:
                    self._count("ends a slow consumer")
                if not consumer.is_closed:
                    self._close(taker, consumer)
            if taker.client.expelled and all(consumer.is_closed for consumer in taker.consumers):
                self._take_away(taker)
            taker.client.expelled.clear()

    def _let_expire(self) -> None:
        """Let time pass within one turn."""
        self.clock.now_ms += self.draws.choice((50, 450))
        self.broker.begin_turn()
        self.timers.fire_due()
        self.highest_ms = max(self.highest_ms, self.broker.wall_ms)
        self._count("waits while somebody refuses" if self._is_refused() else "waits")

    def _is_refused(self) -> bool:
        return any(self.refused().values())

    def _purge(self) -> None:
        """Purge a queue, or stop a purge, as an operator."""
        if self.running and self.draws.random() < 0.3:
            self.draws.choice(self.running).end()
        name = self.draws.choice(PURGED)
        if not self.has_queue(name):
            return
        queue = self.queue(name)
        self._count("purges what is refused" if queue.fates.refused_count else "purges")
        selector = self.draws.choice(("", "", "colour = 'red'"))
        # A purge that owns a group would leave its unselected messages to any consumer.
        purge = self.purge(queue, "" if name == "grouped" else selector)
        self.purges.setdefault(name, []).append(purge)
        self.running.append(purge)

    def _delete(self) -> None:
        """Delete an unused queue with all its messages, as an operator."""
        self.turn()
        self._look()
        names = [name for name in (*QUEUES, ORDERED, SLOW) if self.has_queue(name)]
        refused = [name for name in names if self.queue_there(name).fates.refused_count]
        name = self.draws.choice(refused or names or ["plain"])
        queue = self.queue(name)
        is_refused = queue.fates.refused_count > 0
        try:
            self.delete(queue, is_forced=True)
        except DestinationInUse:
            return
        self._count("deletes what is refused" if is_refused else "deletes")
        self.deleted.add(name)
        is_on_its_way = self.queue(DEAD).depth > 0  # also messages that are returned by the consumers closed for it
        for sent in self.places.get(name, {}).values():
            if sent.end:
                continue
            if is_on_its_way or name in self.purges or 0 < sent.expires_ms <= self.highest_ms:
                sent.may_go = True  # perhaps it was purged before, dead-lettered, or has expired
            else:
                sent.end = "dropped"
            sent.holder = None

    # -- observations

    def _look(self) -> None:
        self._look_at_purges()
        super()._look()
        for queue in self.all_queues():
            self._check_in_flight(queue)

    def _look_at_purges(self) -> None:
        for purge in self.running[:]:
            if purge.is_done:
                self.running.remove(purge)
            for sent in self.places.get(purge.queue.name, {}).values():
                sent.may_go = sent.may_go or (not sent.end and sent.holder is None)

    def _check_in_flight(self, queue: Queue) -> None:
        ledgers = {id(consumer.ledger): consumer.ledger for consumer in queue.consumers.values()}
        held = [one for ledger in ledgers.values() for one in ledger.values() if one.state == IN_FLIGHT]
        count = sum(consumer_of(one).queue is queue for one in held) + queue.fates.refused_count
        if queue.in_flight_count != count or queue.depth < count:
            raise Violation(f"{queue.uri()}: {queue.in_flight_count} of {queue.depth} are in flight, found are {count}")

    def _delivered(self, message: Message, consumer: Consumer, taker: Taker) -> None:
        super()._delivered(message, consumer, taker)
        name = self._place_of(consumer.queue)
        sent = self._sent(message, name)
        if name in ("alone", ORDERED) or (name == "grouped" and sent.group):
            for other in self.places[name].values():
                is_wanted = taker.colour in ("", other.colour) and (name != "grouped" or other.group == sent.group)
                if is_wanted and self._must_precede(other, sent) and not self._is_dead_letter(other, name):
                    raise Violation(f"message {sent.uid} on {name} comes while {other.uid}, which is before it, waits")

    def _must_precede(self, other: Sent, sent: Sent) -> bool:
        is_waiting = other.holder is None and not other.end and not other.may_go and not other.due_ms
        is_before = other.priority == sent.priority and other.order < sent.order and not sent.due_ms
        return is_waiting and is_before and not 0 < other.expires_ms <= self.highest_ms

    def _is_dead_letter(self, sent: Sent, name: str) -> bool:
        """Say whether a message waits as a dead letter: a turn without steps leaves its consumer to the next one."""
        dead = self.queue(DEAD)
        origin = ORIGIN + f"/queue/{name}".encode()
        return any(
            uid_of(message) == sent.uid and origin in message.annotations.splitlines()
            for lane in dead.used_lanes
            for message, _ in waiting(self, self.memory_store, dead, lane)
        )

    # -- the end

    def _crash(self) -> None:
        self.lean_turns = 0
        super()._crash()
        self.running = []

    def _finish(self) -> None:
        self.lean_turns = 0
        self._end_expelled()
        for purge in self.running:
            purge.end()
        self._look_at_purges()
        super()._finish()

    def _check_zero(self) -> None:
        super()._check_zero()
        for name, purges in self.purges.items():
            dropped = sum(purge.count for purge in purges)
            left = [sent for sent in self.places.get(name, {}).values() if not sent.end]
            is_exact = not self.crash_count and name not in self.deleted
            if dropped > len(left) or (is_exact and dropped < self._kept(left)):
                raise Violation(f"{dropped} messages of {name} were purged, {len(left)} never came")

    def _kept(self, left: list[Sent]) -> int:
        """Return the number that must have been purged, because nothing else has taken them."""
        return sum(not sent.expires_ms for sent in left)

    def _expire_all(self) -> None:
        for purge in self.running:
            purge.end()
        self._look_at_purges()
        super()._expire_all()


def run_seed(seed: int, broker_class: type[Broker] = Broker) -> RefusalWorld:
    world = RefusalWorld(seed, broker_class)
    with telling("refusal", seed, world.told):
        world.run()
    return world
