"""A turn: its inputs are applied at once; at its end they are dispatched and appended in one batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.backlog.context import Context, TurnAgenda
from engine.clients.consumer_registry import Subscribing
from engine.consumers.client import Client
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import QUEUE_STEPS, TURN_STEPS, Steps
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.message_times import MessageTimes
from engine.dispatch.selective_dispatcher import SelectiveDispatcher
from engine.fate.dead_letters import DeadLetters
from engine.limits.connection_memory import Holdings
from engine.limits.pending_memory import PendingMemory
from engine.limits.producer_gates import ProducerGates
from engine.ports.store import Store
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.values.delivery import HandOvers

UNWRITTEN_BYTES: Final = 256 * 1024  # records that no confirmation waits for are written once there are this many
BEHIND_BYTES: Final = 256 << 20  # of large messages whose writing takes more turns: more than that counts as memory
DISPATCH_DEBT: Final = 1_000  # steps of dispatch beyond those of a turn: what a turn has found is handed over in it


@dataclass(slots=True, eq=False)
class Turn:
    """agenda: other work than queues.  dirty: queues to dispatch.

    starved: queues whose consumers wait because memory is too short to read more for them.
    """

    context: Context
    clients: dict[int, Client]
    holdings: Holdings
    pending_memory: PendingMemory
    destinations: Destinations
    dispatcher: Dispatcher
    selective: SelectiveDispatcher
    subscribing: Subscribing
    dead_letters: DeadLetters
    settlements: SettlementLog
    producer_gates: ProducerGates
    steps: Steps
    starved: dict[Queue, None]
    message_times: MessageTimes | None
    store: Store = field(init=False)
    agenda: TurnAgenda = field(init=False)
    dirty: list[Queue] = field(init=False)
    hand_overs: HandOvers = field(default_factory=HandOvers)

    def __post_init__(self) -> None:
        self.store = self.context.store
        self.agenda = self.context.agenda
        self.dirty = self.destinations.dirty_queues.queues
        self.hand_overs.sample(self.dispatcher.next_tag, self.context.wall_ms)

    def set_time(self, wall_ms: int) -> None:
        """Set the time of a turn if it has changed since the last one."""
        if self.message_times is not None and wall_ms > self.context.store_time_ms:
            self.message_times.settle()
        self.context.set_time(wall_ms)
        if wall_ms >= self.hand_overs.next_ms:
            self.hand_overs.sample(self.dispatcher.next_tag, wall_ms)

    def end(self) -> int:
        """Dispatch; return the offset that confirmations of this turn wait for.

        The dispatcher writes the batch when it reaches a message in it.  Otherwise the batch can wait until it is large
        or until the next ``Store.sync``, and no confirmation is sent before that.  A write in every turn would make
        turns expensive.
        """
        agenda = self.agenda
        steps = self.steps
        dirty = self.dirty
        if agenda.is_open:
            self._begin_end()
            self._prepare()
            if self.destinations.dirty_queues.is_stopping:  # which shuts gates, so the agenda stays open
                self._hand_over_nothing()
        while dirty:
            queues = dirty[:]
            dirty.clear()
            for queue in queues:
                queue.is_dirty = False
                if steps.left <= -DISPATCH_DEBT:  # selectors and conversions may cost more than a queue's share
                    steps.postpone(queue)
                elif queue.is_choosy:
                    self.selective.run(queue)
                else:
                    self.dispatcher.run(queue)
            if agenda.is_open:
                self._follow_up()
                self._prepare()
            if dirty and not self._may_go_round():
                break
        if self.settlements.waiting:
            self.settlements.end_turn()
        if steps.left != TURN_STEPS:
            steps.end_turn()
        store = self.store
        offset = store.append_offset()
        if offset - store.written_offset() > UNWRITTEN_BYTES:
            store.write()
            if offset - store.written_offset() > BEHIND_BYTES:
                self._count_unwritten()
        if agenda.is_open:
            self._finish()
        return offset

    def has_more_to_do(self) -> bool:
        """Say whether another turn is needed without new input, because the end of the last one had an effect."""
        return bool(self.dirty) or (self.agenda.is_open and self._has_made_work())

    def has_agenda(self) -> bool:
        """Say whether some part has work for the end of the next turn."""
        subscribing = self.subscribing
        return bool(
            self.producer_gates.is_blocked
            or self.context.memory.unwritten_bytes
            or self.holdings.is_over
            or self.steps.chores
            or self.steps.inputs
            or self.destinations.waiting_keepers
            or subscribing.replays.followers
            or self.starved
            or subscribing.wakes.rooms
            or subscribing.browsing.consumers
            or self.dispatcher.expired
            or self.dispatcher.unwritten.waiting
        )

    def sync(self) -> None:
        """Make everything durable, including what no confirmation waits for; call it a little after the turn."""
        self.settlements.flush()
        self.context.store.sync()

    def has_unsynced(self) -> bool:
        """Say whether anything is not durable yet."""
        store = self.context.store
        return bool(self.settlements.waiting) or store.durable_offset() < store.append_offset()

    # -- the steps

    def _has_made_work(self) -> bool:
        """Say whether some part of the agenda must not wait for other input."""
        if self.producer_gates.is_blocked and self.producer_gates.has_room():
            return True  # what left settled has made it
        return bool(self.subscribing.wakes.rooms or self.steps.inputs or self.holdings.is_over)

    def _begin_end(self) -> None:
        if self.holdings.is_over:
            self.holdings.relieve(self.clients.values())
        if self.context.memory.held_bytes() >= self.context.memory.near_bytes:
            self.producer_gates.is_blocked = True
            self.pending_memory.check(self.destinations.readers)
        self.steps.begin_end()
        if self.steps.inputs:
            self.steps.run_inputs()
        if self.steps.chores:
            self.steps.run_chores()
        if self.context.memory.unwritten_bytes:
            self._count_unwritten()

    def _prepare(self) -> None:
        """Run the parts that make queues dirty, until one is dirty or nothing more happens."""
        destinations = self.destinations
        replays = self.subscribing.replays
        wakes = self.subscribing.wakes
        unwritten = self.dispatcher.unwritten
        while True:
            if unwritten.waiting:
                unwritten.go_on()
            if self.producer_gates.is_blocked:
                self.producer_gates.open_gates()
            if destinations.waiting_keepers:
                self._run_keepers()
            if replays.followers:
                replays.follow()
            if self.starved:
                self._feed_starved()
            if wakes.rooms:
                wakes.run()
            if self.dirty or not self.dispatcher.expired or self.steps.left <= 0:
                break
            self._follow_up()

    def _hand_over_nothing(self) -> None:
        """Leave what waits where it is: the gateway stops."""
        for queue in self.dirty:
            queue.is_dirty = False
        self.dirty.clear()

    def _may_go_round(self) -> bool:
        """Charge one more round of dispatch; if that is too much, its queues wait for the next turn.

        A round is due to what the last one has done, so rounds end by themselves.  A defect in that must not hold
        everybody for ever.
        """
        steps = self.steps
        left = steps.left - QUEUE_STEPS * len(self.dirty)
        if left > -DISPATCH_DEBT:
            steps.left = left
            return True
        for queue in self.dirty:
            queue.is_dirty = False
            steps.postpone(queue)
        self.dirty.clear()
        return False

    def _follow_up(self) -> None:
        """Do the work that results from the hand-overs."""
        if self.subscribing.browsing.consumers:
            self.subscribing.browsing.report_ends()
        if self.dispatcher.expired:
            self.dead_letters.bury_expired()

    def _finish(self) -> None:
        """Shut the agenda unless some part has work for the next turn."""
        if self.producer_gates.is_blocked:
            self._count_unwritten()
        self.agenda.is_open = self.has_agenda()

    def _count_unwritten(self) -> None:
        """Count what a failing or slow store keeps in memory in the budget: it holds back senders and backlogs."""
        store = self.context.store
        offset = store.append_offset()
        behind_bytes = offset - store.written_offset()
        if not store.is_accepting():
            behind_bytes = offset - store.durable_offset()
        elif behind_bytes <= BEHIND_BYTES:
            behind_bytes = 0
        self.context.memory.keep_unwritten(behind_bytes)

    def _feed_starved(self) -> None:
        """Let starved queues read again as far as there is memory."""
        is_short = self.context.memory.is_short()
        for queue in list(self.starved):
            if not queue.feed.is_starved(is_short):
                del self.starved[queue]
                queue.mark_dirty()

    def _run_keepers(self) -> None:
        waiting = self.destinations.waiting_keepers[:]
        self.destinations.waiting_keepers.clear()
        for keeper in waiting:
            if keeper.run():
                self.dispatcher.pages.ask(keeper.queue, keeper.reads_on)
