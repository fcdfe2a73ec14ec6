"""What clients may see and what a stop may remove: the laws that check every run.

The oracle follows each client's requests at the moment the engine takes them.  For each queue and each topic
subscription it records which messages must be there, who has them, and how often they failed.  It knows the rules in
JMS words (docs/reference/semantics.md, docs/explanation/architecture.md), and none of the engine's code.
"""

from __future__ import annotations

from typing import Final

from config.matching import AddressMatcher
from engine.consumers.consumer import AUTO, CLIENT
from engine.values.destination import QUEUE, SUBSCRIPTION, TOPIC
from tests.support.world.bodies import Violation
from tests.support.world.replays import Replay
from tests.support.world.store import Image, Waiting
from tests.support.world.views import Committed, CreditSubscriber, Fact, OpenTransaction, Place, Sent, Subscriber, View

# Why a message is no longer on a queue.
ACKED: Final = "acknowledged"
DEAD: Final = "dead-lettered"
DROPPED: Final = "dropped"
EXPIRED: Final = "expired"
LOST: Final = "lost, unconfirmed, in a stop"

ROLLED_BACK: Final = "redeliver at once"


class Oracle:
    """wall_ms: the engine's time of the current turn.

    is_order_seen: deliveries are seen as they happen, across all consumers; otherwise in order for each consumer only.
    """

    def __init__(self, addresses: AddressMatcher, loose_queues: frozenset[str], is_order_seen: bool) -> None:
        self.addresses = addresses
        self.loose_queues = loose_queues
        self.is_order_seen = is_order_seen
        self.wall_ms = 0
        self.messages: dict[int, Sent] = {}
        self.queues: dict[str, View] = {}
        self.subscribers: dict[str, list[Subscriber]] = {}  # of topics
        self.durables: dict[str, View] = {}  # durable subscriptions, at most one per topic
        self.confirmed: dict[tuple[str, int, str, int], int] = {}
        self.committed: list[Committed] = []
        self.ids: dict[str, tuple[int, str, int]] = {}
        self.names: dict[tuple[int, str, int], str] = {}
        self.delivered_count = 0
        self.durable: set[tuple[str, int]] = set()
        # While True, accepted messages passed gates in one turn, in an unknown order.
        self.is_unordered = False
        self._next_order = 1

    # -- actions of clients

    def new_message(
        self, producer: int, kind: int, name: str, is_persistent: bool, priority: int, expires_ms: int
    ) -> Sent:
        sent = Sent(len(self.messages) + 1, producer, kind, name, is_persistent, priority, expires_ms)
        self.messages[sent.uid] = sent
        return sent

    def view(self, name: str) -> View:
        view = self.queues.get(name)
        if view is None:
            view = View(QUEUE, name, self.addresses.settings_for(QUEUE, name), name in self.loose_queues)
            self.queues[name] = view
        return view

    def is_logged(self, sent: Sent) -> bool:
        return sent.is_persistent or self.addresses.settings_for(sent.kind, sent.name).log_non_persistent

    def accept(self, sent: Sent) -> list[Fact]:
        """Note a message that the engine has taken."""
        if sent.is_accepted:
            raise Violation(f"message {sent.uid} is accepted twice")
        sent.is_accepted = True
        sent.order = self._next_order
        if not self.is_unordered:
            self._next_order += 1
        if sent.kind == QUEUE:
            self.view(sent.name).places[sent.uid] = Place(sent.uid)
        else:
            for subscriber in self.subscribers.get(sent.name, ()):
                subscriber.view.places[sent.uid] = Place(sent.uid)
            durable = self.durables.get(sent.name)
            if durable is not None:
                durable.places[sent.uid] = Place(sent.uid)
        # A non-persistent message that its address has logged is confirmed without waiting for the log.
        return [Fact("sent", sent.kind, sent.name, sent.uid)] if sent.is_persistent else []

    def subscribe(self, kind: int, name: str, ack_mode: int, prefetch: int, is_credited: bool = False) -> Subscriber:
        make = CreditSubscriber if is_credited else Subscriber
        if kind == QUEUE:
            return make(self.view(name), ack_mode, prefetch)
        if kind == SUBSCRIPTION:
            if name not in self.durables:
                self.durables[name] = View(SUBSCRIPTION, name, self.addresses.settings_for(TOPIC, name))
            return make(self.durables[name], ack_mode, prefetch)
        subscriber = make(View(TOPIC, name, self.addresses.settings_for(TOPIC, name)), ack_mode, prefetch)
        self.subscribers.setdefault(name, []).append(subscriber)
        return subscriber

    def replay(
        self, kind: int, name: str, ack_mode: int, prefetch: int, replay: Replay, is_credited: bool
    ) -> Subscriber:
        """Return the replays of a queue or topic."""
        make = CreditSubscriber if is_credited else Subscriber
        subscriber = make(View(kind, name, self.addresses.settings_for(kind, name)), ack_mode, prefetch)
        subscriber.replay = replay
        return subscriber

    def show(self, subscriber: Subscriber, uid: int, is_redelivered: bool, count: int) -> Place:
        """Note a message that was handed to a replay."""
        view = subscriber.view
        what = f"message {uid} of {view.uri()}, in a replay,"
        self.delivered_count += 1
        sent = self.messages.get(uid)
        if not subscriber.is_open or sent is None or (sent.kind, sent.name) != (view.kind, view.name):
            raise Violation(f"{what} is for somebody else")
        if is_redelivered or count != 1:
            raise Violation(f"{what} says redelivered {is_redelivered} and count {count}")
        if self.may_have_expired(sent):
            raise Violation(f"{what} has expired")
        assert subscriber.replay is not None, "only replays are shown what others were sent"
        subscriber.replay.shown(uid, sent.kind == TOPIC and not self.is_logged(sent))
        place = Place(uid)
        if subscriber.ack_mode != AUTO:
            self._hand_over(subscriber, place, what)
        return place

    def has_expired(self, uid: int) -> bool:
        return self.may_have_expired(self.messages[uid])

    def looked_at(self, places: list[Place]) -> None:
        """Note an acknowledgement of a replay, which settles nothing."""
        for place in places:
            self._leave(place)

    def delete_durable(self, name: str) -> None:
        """Note the end of the durable subscription to a topic; its promises end with it."""
        del self.durables[name]
        self.confirmed = {key: count for key, count in self.confirmed.items() if key[1:3] != (SUBSCRIPTION, name)}

    def deliver(self, subscriber: Subscriber, uid: int, is_redelivered: bool, count: int) -> Place:
        """Note a message that was handed to a client."""
        view = subscriber.view
        what = f"message {uid} on {view.uri()}"
        self.delivered_count += 1
        if not subscriber.is_open:
            raise Violation(f"{what} goes to a subscription that has ended")
        if view.is_loose:
            return self._deliver_loosely(subscriber, uid)
        place = view.places.get(uid) or self._take_expired(view, uid, what)
        sent = self.messages[uid]
        if place.holder is not None:
            raise Violation(f"{what} is in flight twice at once")
        if place.due_ms > self.wall_ms:
            raise Violation(f"{what} is delivered {place.due_ms - self.wall_ms} ms before its redelivery delay is over")
        if view.name == sent.name and 0 < sent.expires_ms <= self.wall_ms:
            raise Violation(f"{what} is delivered though it has expired")
        if count != place.failed + 1:
            raise Violation(f"{what} says delivery count {count}, it has failed {place.failed} times")
        if is_redelivered != place.is_seen and (self.is_order_seen or place.is_seen):
            raise Violation(f"{what} says redelivered {is_redelivered}, it must say {place.is_seen}")
        if is_redelivered and not self.is_order_seen:
            view.delivered_first.add(uid)  # a consumer had it and was gone before reading it
        self._check_order(view if self.is_order_seen else subscriber, view, sent, what)
        if subscriber.colours and sent.colour not in subscriber.colours:
            raise Violation(f"{what} is {sent.colour}, and goes to a consumer that asks for {subscriber.colours}")
        if self.is_order_seen and view.name == sent.name:
            if view.settings.queue.exclusive_consumer:
                self._check_exclusive(subscriber, view, sent, what)
            elif sent.group:
                self._check_group(subscriber, view, sent, what)
        if subscriber.ack_mode == AUTO:
            del view.places[uid]
            view.gone[uid] = ACKED
            return place
        self._hand_over(subscriber, place, what)
        return place

    def covered(self, subscriber: Subscriber, place: Place) -> list[Place]:
        """Return the messages that an answer to ``place`` covers."""
        if subscriber.ack_mode != CLIENT:
            return [place]
        return [one for tag, one in subscriber.ledger.items() if tag <= place.tag and not one.is_held]

    def acknowledge(self, places: list[Place]) -> list[Fact]:
        facts: list[Fact] = []
        for place in places:
            view = self._leave(place)
            if view is None:
                continue
            view.gone[place.uid] = ACKED
            self._gone(view, place)
            facts += self._settled(view, place)
        return facts

    def refuse(self, places: list[Place], mode: str = "") -> list[Fact]:
        """mode: of the client's answer, "" for that of the address."""
        facts: list[Fact] = []
        for place in places:
            view = self._leave(place)
            if view is None:
                continue
            place.is_seen = True
            wanted = mode or view.settings.nack
            if wanted == "requeue":
                continue
            place.failed += 1
            if wanted == "dead-letter" or view.settings.redelivery.is_exhausted(place.failed):
                facts += self._dead_letter(view, place)
            else:
                facts += self._wait(view, place)
                if wanted == ROLLED_BACK:
                    place.due_ms = self.wall_ms
        return facts

    def hold(self, transaction: OpenTransaction, places: list[Place], is_accepted: bool) -> None:
        """Settle inside a transaction, which frees the place in the window."""
        for place in places:
            subscriber = place.holder
            assert subscriber is not None, "what is settled is with somebody"
            place.is_held = True
            subscriber.furthest_tag = max(subscriber.furthest_tag, place.tag)
            subscriber.give_back()
            transaction.views[id(place)] = subscriber.view
            (transaction.accepted if is_accepted else transaction.refused).append(place)

    def commit(self, transaction: OpenTransaction) -> tuple[list[Fact], Committed]:
        sent: list[Fact] = []
        for one in transaction.sends:
            sent += self.accept(one)
        settled = self.acknowledge(transaction.accepted)
        facts = sent + settled + self.refuse(transaction.refused)
        committed = Committed(sent, settled)
        self.committed.append(committed)
        return facts, committed

    def abort(self, transaction: OpenTransaction) -> None:
        for place in transaction.accepted + transaction.refused:
            subscriber = place.holder
            assert subscriber is not None, "what is held is with somebody"
            place.is_held = False
            if subscriber.is_open:
                subscriber.retake()
            else:
                place.holder = None
                place.is_seen = True

    def roll_back(self, transaction: OpenTransaction) -> None:
        """Abort for a client that forgets its acknowledgements: each is a failed attempt, tried again at once."""
        self.abort(transaction)
        for place in transaction.accepted:
            if place.holder is not None:
                self.refuse([place], ROLLED_BACK)

    def close(self, subscriber: Subscriber, is_lost: bool) -> None:
        """End a subscription; transactions that end with its connection were aborted before."""
        view = subscriber.view
        subscriber.is_open = False
        if subscriber.replay is not None:
            return
        if view.kind == TOPIC:
            self.subscribers[view.name].remove(subscriber)
            view.places.clear()
            return
        in_flight = [place for place in subscriber.ledger.values() if not place.is_held]
        blamed: list[Place] = []
        if is_lost and view.settings.blame == "all":
            blamed = in_flight
        elif is_lost and view.settings.blame == "acked+1":
            for place in in_flight:
                blamed.append(place)
                if place.tag > subscriber.furthest_tag:
                    break
        for place in blamed:
            place.failed += 1
        gave_sign = subscriber.furthest_tag > 0 or subscriber.limit() == 1
        for place in in_flight:
            place.holder = None
            place.is_seen = True
            exhausted = view.settings.redelivery.is_exhausted(place.failed)
            if gave_sign and exhausted and any(one is place for one in blamed) and not view.is_loose:
                if view.settings.dead_letter_address == view.name:
                    place.due_ms = self.wall_ms + view.settings.redelivery.delay_ms(place.failed)
                else:
                    self._dead_letter(view, place)
        subscriber.ledger.clear()

    def confirm(self, facts: list[Fact]) -> None:
        """Note that a client has seen the confirmation of these."""
        for fact in facts:
            key = (fact.what, fact.kind, fact.name, fact.uid)
            self.confirmed[key] = max(self.confirmed.get(key, 0), fact.count)

    # -- the steps

    def identify(self, view: View, uid: int, message_id: str) -> None:
        """Note a message's id: from now on no other message may have it, over any number of stops."""
        place = (TOPIC if view.kind == SUBSCRIPTION else view.kind, view.name, uid)
        known = self.ids.setdefault(message_id, place)
        if known != place:
            raise Violation(f"id {message_id} names message {known[2]} on {known[1]} and message {uid} on {view.name}")
        if not view.is_loose and self.names.setdefault(place, message_id) != message_id:
            raise Violation(f"message {uid} on {view.name} had the id {self.names[place]}, now it is {message_id}")

    def _take_expired(self, view: View, uid: int, what: str) -> Place:
        """Return the place of a message on an expiry queue.  Raises: Violation if it must not be there."""
        if uid in view.gone:
            raise Violation(f"{what} comes back, it was {view.gone[uid]}")
        sent = self.messages.get(uid)
        if sent is None or not sent.is_accepted:
            raise Violation(f"{what} was never accepted")
        if sent.kind == QUEUE and self.may_have_expired(sent):
            origin = self.view(sent.name)
            if origin.settings.expiry_address == view.name:
                was = origin.places.pop(uid, None)
                if was is None or was.holder is not None:
                    raise Violation(f"{what} has expired though it was not waiting on {sent.name}")
                origin.gone[uid] = EXPIRED
                place = view.places[uid] = Place(uid)
                return place
        raise Violation(f"{what} has nothing to do there")

    def may_have_expired(self, sent: Sent) -> bool:
        return 0 < sent.expires_ms <= self.wall_ms

    def _check_order(self, seen_by: View | Subscriber, view: View, sent: Sent, what: str) -> None:
        """Check that first deliveries follow the order of sending, per producer and priority."""
        if sent.uid in view.delivered_first or sent.name != view.name:
            return
        view.delivered_first.add(sent.uid)
        key = (sent.producer, sent.priority, sent.colour or sent.group)
        if sent.order < seen_by.last_order.get(key, 0):
            raise Violation(f"{what} is delivered after a later one of the same producer and priority")
        seen_by.last_order[key] = sent.order

    def _check_exclusive(self, subscriber: Subscriber, view: View, sent: Sent, what: str) -> None:
        """Check that one consumer at a time has messages of an exclusive queue, and gets them in order."""
        for place in view.places.values():
            holder = place.holder
            if holder is not None and holder is not subscriber and holder.is_open:
                raise Violation(f"{what} goes to one consumer while another one of an exclusive queue has {place.uid}")
        self._check_first([*view.places.values()], sent, what)

    def _check_group(self, subscriber: Subscriber, view: View, sent: Sent, what: str) -> None:
        """Check that one consumer at a time has messages of a group, and gets them in order."""
        group = [place for place in view.places.values() if self.messages[place.uid].group == sent.group]
        for place in group:
            if place.holder is not None and place.holder is not subscriber:
                raise Violation(f"{what} of group {sent.group} goes to one consumer while another has {place.uid}")
        self._check_first(group, sent, what)

    def _check_first(self, places: list[Place], sent: Sent, what: str) -> None:
        """Check that no message that must precede ``sent`` waits, for its turn or for its redelivery."""
        for place in places:
            other = self.messages[place.uid]
            is_before = other.priority == sent.priority and other.order < sent.order
            if is_before and place.holder is None and not self.may_have_expired(other):
                raise Violation(f"{what} is delivered while {place.uid}, which comes before it, waits")

    def holds(self, name: str, colour: str) -> bool:
        """Say whether messages of a colour are on a queue that must be delivered."""
        return any(
            self.messages[uid].colour == colour and not self.may_have_expired(self.messages[uid])
            for uid in self.view(name).places
        )

    def arrive_late(self, subscriber: Subscriber, uid: int) -> None:
        """Note a message on its way to a subscriber that has left in order meanwhile."""
        view = subscriber.view
        place = view.places.get(uid)
        if place is None:
            return
        view.delivered_first.add(uid)
        if subscriber.ack_mode == AUTO:
            del view.places[uid]
            view.gone[uid] = ACKED
        else:
            place.is_seen = True

    def _hand_over(self, subscriber: Subscriber, place: Place, what: str) -> None:
        if subscriber.is_full or subscriber.in_flight >= subscriber.limit():
            raise Violation(
                f"{what} exceeds a window: {subscriber.in_flight} of {subscriber.limit()} in flight, "
                f"resumes at {subscriber.resume_at()}"
            )
        subscriber.take()
        place.holder = subscriber
        place.tag = subscriber.next_tag
        subscriber.next_tag += 1
        subscriber.ledger[place.tag] = place

    def _deliver_loosely(self, subscriber: Subscriber, uid: int) -> Place:
        place = Place(uid)
        if subscriber.ack_mode != AUTO:
            self._hand_over(subscriber, place, f"message {uid}")
        return place

    def _leave(self, place: Place) -> View | None:
        """Take a message from its holder; return its view, None if that has ended."""
        subscriber = place.holder
        assert subscriber is not None, "what is settled is with somebody"
        subscriber.ledger.pop(place.tag, None)
        subscriber.furthest_tag = max(subscriber.furthest_tag, place.tag)
        if place.is_held:
            place.is_held = False
        else:
            subscriber.give_back()
        place.holder = None
        if subscriber.view.kind == TOPIC and not subscriber.is_open:
            return None
        return subscriber.view

    def _gone(self, view: View, place: Place) -> None:
        if not view.is_loose:
            del view.places[place.uid]

    def _settled(self, view: View, place: Place) -> list[Fact]:
        if view.kind == TOPIC or view.is_loose:
            return []
        sent = self.messages[place.uid]
        is_logged = view.name != sent.name or self.is_logged(sent)
        return [Fact("settled", view.kind, view.name, place.uid)] if is_logged else []

    def _wait(self, view: View, place: Place) -> list[Fact]:
        place.due_ms = self.wall_ms + view.settings.redelivery.delay_ms(max(1, place.failed))
        if view.kind == TOPIC or view.is_loose:
            return []
        sent = self.messages[place.uid]
        is_logged = view.name != sent.name or self.is_logged(sent)
        return [Fact("failed", view.kind, view.name, place.uid, place.failed)] if is_logged else []

    def _dead_letter(self, view: View, place: Place) -> list[Fact]:
        address = view.settings.dead_letter_address
        if view.is_loose:
            return []
        if address == view.name and view.kind == QUEUE:
            return self._wait(view, place)
        facts = self._settled(view, place)
        self._gone(view, place)
        view.gone[place.uid] = DROPPED if address is None else DEAD
        if address is not None:
            target = self.view(address)
            if not target.is_loose:
                if place.uid in target.places or place.uid in target.gone:
                    raise Violation(f"message {place.uid} is dead-lettered twice")
                target.places[place.uid] = Place(place.uid)
                facts.append(Fact("sent", QUEUE, address, place.uid))
        return facts

    # -- after a stop

    def restarted(self, image: Image) -> None:
        """Compare the state after a restart with the confirmations, and continue from that state."""
        found: dict[str, dict[int, Waiting]] = {}
        for kind, name in image.destinations.values():
            if kind == QUEUE and name not in self.loose_queues:
                found[name] = image.on_queue(kind, name)
        for name, waiting in found.items():
            for uid in waiting:
                self._check_known(name, uid, found)
        kept = {name: image.on_queue(kind, name) for kind, name in image.destinations.values() if kind == SUBSCRIPTION}
        self._check_confirmed(found, kept)
        self._restart_durables(kept)
        for committed in self.committed:
            self._check_whole(committed, found)
        self.committed = []
        self.subscribers = {}
        for name in found:
            self.view(name)
        for name, view in self.queues.items():
            self._restore(view, found.get(name, {}))
        self.durable = {(name, uid) for name, waiting in found.items() for uid in waiting}
        for name, uid in sorted(self.durable):
            if self.messages[uid].name == name:
                self._forget_moves(name, uid)

    def _check_known(self, name: str, uid: int, found: dict[str, dict[int, Waiting]]) -> None:
        sent = self.messages.get(uid)
        if sent is None or not sent.is_accepted:
            raise Violation(f"after a restart message {uid} is on {name}, it was never accepted")
        if sent.kind == QUEUE and sent.name != name:
            view = self.view(name)
            if uid not in view.places and uid not in view.gone:
                self._take_expired(view, uid, f"message {uid} on queue://{name}, after a restart,")
            if uid in found.get(sent.name, {}):
                raise Violation(f"after a restart message {uid} is on {sent.name} and on {name}")

    def _restart_durables(self, kept: dict[str, dict[int, Waiting]]) -> None:
        """Do the same for durable subscriptions."""
        for name, waiting in kept.items():
            for uid in waiting:
                if not self.messages[uid].is_accepted or self.messages[uid].name != name:
                    raise Violation(f"after a restart message {uid} is on the durable subscription to {name}")
        for name, view in list(self.durables.items()):
            if name not in kept:
                if ("opened", SUBSCRIPTION, name, 0) in self.confirmed:
                    raise Violation(f"the durable subscription to {name}, confirmed, is lost in a stop")
                del self.durables[name]
                continue
            for uid in view.places:
                is_confirmed = ("sent", TOPIC, name, uid) in self.confirmed
                if is_confirmed and uid not in kept[name] and not self.may_have_expired(self.messages[uid]):
                    raise Violation(f"message {uid}, confirmed, is lost in a stop for {view.uri()}")
            self._restore(view, kept[name])

    def _check_confirmed(self, queues: dict[str, dict[int, Waiting]], kept: dict[str, dict[int, Waiting]]) -> None:
        for (what, kind, name, uid), count in self.confirmed.items():
            if kind == TOPIC:
                continue
            found = queues if kind == QUEUE else kept
            waiting = found.get(name, {}).get(uid)
            if what == "sent" and not self._is_kept(name, uid, found):
                raise Violation(f"message {uid}, confirmed on {name}, is lost in a stop")
            if what == "settled" and waiting is not None:
                raise Violation(f"message {uid} on {name}, settled and confirmed, comes back after a stop")
            if what == "failed" and waiting is not None and waiting.failed_attempts < count:
                raise Violation(
                    f"message {uid} on {name} has failed {count} times, confirmed; "
                    f"after a stop it is {waiting.failed_attempts}"
                )

    def _is_kept(self, name: str, uid: int, found: dict[str, dict[int, Waiting]]) -> bool:
        if uid in found.get(name, {}):
            return True
        view = self.view(name)
        reason = view.gone.get(uid)
        if reason == DEAD:
            address = view.settings.dead_letter_address
            return address is None or address in self.loose_queues or self._is_kept(address, uid, found)
        sent = self.messages[uid]
        return reason in (ACKED, DROPPED, EXPIRED) or (name == sent.name and self.may_have_expired(sent))

    def _check_whole(self, committed: Committed, found: dict[str, dict[int, Waiting]]) -> None:
        evidence_for: list[Fact] = []
        evidence_against: list[Fact] = []
        for fact in committed.sent:
            if fact.kind != QUEUE:
                continue
            if fact.uid in found.get(fact.name, {}):
                evidence_for.append(fact)
            elif not self._is_kept(fact.name, fact.uid, found):
                evidence_against.append(fact)
        for fact in committed.settled:
            if fact.kind != QUEUE:
                continue
            if fact.uid in found.get(fact.name, {}):
                evidence_against.append(fact)
            elif self._was_certain(fact):
                evidence_for.append(fact)
        if committed.is_confirmed and evidence_against:
            raise Violation(f"of a transaction that was confirmed a stop took {evidence_against}")
        if evidence_for and evidence_against:
            raise Violation(f"a stop took half of a transaction: {evidence_for} stays, {evidence_against} is gone")

    def _was_certain(self, fact: Fact) -> bool:
        """Say whether the message was certainly there; another one may be gone without a settlement."""
        return (fact.name, fact.uid) in self.durable or ("sent", fact.kind, fact.name, fact.uid) in self.confirmed

    def _restore(self, view: View, waiting: dict[int, Waiting]) -> None:
        for uid in view.places:
            if uid not in waiting:
                view.gone[uid] = EXPIRED if self.may_have_expired(self.messages[uid]) else LOST
        view.places = {}
        for uid, one in waiting.items():
            view.gone.pop(uid, None)
            view.places[uid] = Place(uid, one.failed_attempts, one.due_ms, one.failed_attempts > 0)

    def _forget_moves(self, name: str, uid: int) -> None:
        """Note that a message is back on its first queue, because its move was lost in a stop."""
        for view in self.queues.values():
            if view.name != name:
                view.places.pop(uid, None)
                view.gone.pop(uid, None)
                self.names.pop((QUEUE, view.name, uid), None)

    def unfinished(self) -> list[str]:
        """Return the undelivered messages after the drain."""
        return [
            f"message {place.uid} on {view.uri()}"
            for view in [*self.queues.values(), *self.durables.values()]
            for place in view.places.values()
            if not (view.name == self.messages[place.uid].name and self.may_have_expired(self.messages[place.uid]))
        ]
