"""A turn: its inputs are applied at once; at its end they are dispatched and appended in one batch."""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.clients.consumer_registry import Subscribing
from engine.consumers.client import Client
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import TURN_STEPS, Steps
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.selective_dispatcher import SelectiveDispatcher
from engine.fate.dead_letters import DeadLetters
from engine.limits.connection_memory import Holdings
from engine.limits.producer_gate import Flow
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.values.hand_over_times import HandOvers

UNWRITTEN_BYTES: Final = 256 * 1024  # records that no confirmation waits for are written once there are this many


class Turn:
    """agenda: other work than queues.  dirty: queues to dispatch.

    starved: queues whose consumers wait because memory is too short to read more for them.
    """

    __slots__ = (
        "context",
        "store",
        "agenda",
        "dirty",
        "clients",
        "holdings",
        "destinations",
        "dispatcher",
        "selective",
        "subscribing",
        "dead_letters",
        "settlements",
        "flow",
        "steps",
        "starved",
        "hand_overs",
    )

    def __init__(
        self,
        context: Context,
        clients: dict[int, Client],
        holdings: Holdings,
        destinations: Destinations,
        dispatcher: Dispatcher,
        selective: SelectiveDispatcher,
        subscribing: Subscribing,
        dead_letters: DeadLetters,
        settlements: SettlementLog,
        flow: Flow,
        steps: Steps,
        starved: dict[Queue, None],
    ) -> None:
        self.context = context
        self.store = context.store
        self.agenda = context.agenda
        self.dirty = destinations.dirty_queues
        self.clients = clients
        self.holdings = holdings
        self.destinations = destinations
        self.dispatcher = dispatcher
        self.selective = selective
        self.subscribing = subscribing
        self.dead_letters = dead_letters
        self.settlements = settlements
        self.flow = flow
        self.steps = steps
        self.starved = starved
        self.hand_overs = HandOvers()
        self.hand_overs.sample(dispatcher.next_tag, context.wall_ms)

    def set_time(self, wall_ms: int) -> None:
        """Set the time of a turn if it has changed since the last one."""
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
        if agenda.is_open:
            self._begin_end()
            self._prepare()
        dirty = self.dirty
        while dirty:
            queues = dirty[:]
            dirty.clear()
            for queue in queues:
                queue.is_dirty = False
                if queue.is_choosy:
                    self.selective.run(queue)
                else:
                    self.dispatcher.run(queue)
            if agenda.is_open:
                self._follow_up()
                self._prepare()
        if self.settlements.waiting:
            self.settlements.end_turn()
        if self.steps.left != TURN_STEPS:
            self.steps.end_turn()
        store = self.store
        offset = store.append_offset()
        if offset - store.written_offset() > UNWRITTEN_BYTES:
            store.write()
        if agenda.is_open:
            self._finish()
        return offset

    def has_more_to_do(self) -> bool:
        """Say whether another turn is needed without new input, because the end of the last one had an effect."""
        if self.flow.is_blocked and self.flow.has_room():
            return True  # what left settled has made it
        return bool(self.dirty or self.subscribing.wakes.rooms or self.holdings.is_over)

    def has_agenda(self) -> bool:
        """Say whether some part has work for the end of the next turn."""
        subscribing = self.subscribing
        return bool(
            self.flow.is_blocked
            or self.context.memory.unwritten_bytes
            or self.holdings.is_over
            or self.steps.chores
            or self.destinations.waiting_keepers
            or subscribing.replays.followers
            or self.starved
            or subscribing.wakes.rooms
            or subscribing.browsing.consumers
            or self.dispatcher.expired
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

    def _begin_end(self) -> None:
        if self.holdings.is_over:
            self.holdings.relieve(self.clients.values())
        self.steps.begin_end()
        if self.steps.chores:
            self.steps.run_chores()
        if self.context.memory.unwritten_bytes:
            self._count_unwritten()

    def _prepare(self) -> None:
        """Run the parts that make queues dirty, until one is dirty or nothing more happens."""
        destinations = self.destinations
        replays = self.subscribing.replays
        wakes = self.subscribing.wakes
        while True:
            if self.flow.is_blocked:
                self.flow.open_gates()
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

    def _follow_up(self) -> None:
        """Do the work that results from the hand-overs."""
        if self.subscribing.browsing.consumers:
            self.subscribing.browsing.tell_ends()
        if self.dispatcher.expired:
            self.dead_letters.bury_expired()

    def _finish(self) -> None:
        """Shut the agenda unless some part has work for the next turn."""
        if self.flow.is_blocked:
            self._count_unwritten()
        self.agenda.is_open = self.has_agenda()

    def _count_unwritten(self) -> None:
        """Count what a failing store keeps in memory in the budget: it holds back senders and readers of backlogs."""
        store = self.context.store
        unwritten_bytes = 0 if store.is_accepting() else store.append_offset() - store.durable_offset()
        self.context.memory.keep_unwritten(unwritten_bytes)

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
                self.dispatcher.ask_for_pages(keeper.queue)
