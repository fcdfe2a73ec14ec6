"""The end of a run: all queues and subscriptions are emptied, and every destination is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.consumers.consumer import CLIENT, INDIVIDUAL
from engine.values.destination import QUEUE, SUBSCRIPTION
from tests.support.world.bodies import Violation
from tests.support.world.clients import Peer, durable_name
from tests.support.world.profile import COLOURS, SELECTED

if TYPE_CHECKING:
    from tests.support.world.world import World

DRAIN_ROUNDS: Final = 4_000
ROUNDS_WITHOUT_TIME: Final = 20


class Drain:
    """Consumers that take the remaining messages, in a mode and with a prefetch that the seed chooses."""

    def __init__(self, world: World) -> None:
        self.world = world

    def take_everything(self) -> None:
        """Take everything from every queue, with any prefetch and mode."""
        drainers: dict[str, Peer] = {}
        for _ in range(DRAIN_ROUNDS):
            self.world.open_turn()
            for name in self.world.queue_names():
                if name not in drainers:
                    drainers[name] = self.world.add_peer()
                    drainers[name].subscribe(
                        QUEUE,
                        name,
                        self.world.chance.choice((INDIVIDUAL, CLIENT)),
                        self.world.chance.choice((0, 1, 7, 1000)),
                    )
            for topic, _ in self.world.durable_queues():
                if f"topic {topic}" not in drainers:
                    peer = drainers[f"topic {topic}"] = self.world.add_durable_peer()
                    peer.subscribe(SUBSCRIPTION, topic, INDIVIDUAL, self.world.chance.choice((1, 7, 1000)))
            if self.world.has_replays:
                self._replay_all(drainers)
            for peer in drainers.values():
                peer.take_all()
            self.world.end_turn()
            if self.world.workers.choices():
                self.world.open_turn()
                self.world.workers.drain()
                self.world.end_turn()
            elif self._is_drained():
                break
            else:
                self._wait_for_timer()
        else:
            left = self.world.oracle.unfinished()[:10]
            raise Violation(f"not drained after {DRAIN_ROUNDS} rounds: {left}, {self.world.broker.inspect()}")
        unfinished = self.world.oracle.unfinished()
        if unfinished:
            raise Violation(f"never delivered: {unfinished[:20]}")
        self.world.open_turn()
        for peer in drainers.values():
            peer.disconnect()
        self.world.end_turn()
        self.world.workers.drain()
        self.world.end_turn()
        for peer in self.world.peers:
            if not peer.is_at_rest():
                raise Violation(f"connection {peer.number} is still owed {len(peer.receipts)} confirmations")
        self.world.open_turn()
        for topic in [topic for topic, _ in self.world.durable_queues()]:
            self.world.delete_subscription("", durable_name(topic))
            self.world.oracle.delete_durable(topic)
        self.world.end_turn()
        self.world.workers.drain()
        self.world.end_turn()

    def _replay_all(self, drainers: dict[str, Peer]) -> None:
        """Read each destination again; after a refusal, because the start is gone, try another start."""
        for kind, name in self.world.destinations:
            key = f"replay {kind} {name}"
            if key not in drainers or not drainers[key].subscriptions:
                peer = drainers.get(key) or self.world.add_peer()
                drainers[key] = peer
                peer.replay(kind, name, INDIVIDUAL, self.world.chance.choice((1, 7, 1000)))

    def _are_replays_done(self) -> bool:
        replays = [one.subscriber.replay for peer in self.world.peers for one in peer.subscriptions.values()]
        return all(replay is None or replay.is_done() for replay in replays)

    def take_selected(self) -> None:
        """Check that untaken messages do not keep a consumer from those that its selector matches."""
        if not self.world.has_queue(SELECTED):
            return
        colour = self.world.chance.choice(COLOURS)
        self.world.open_turn()
        peer = self.world.add_peer()
        peer.subscribe(QUEUE, SELECTED, INDIVIDUAL, self.world.chance.choice((0, 1, 7, 1000)), (colour,))
        for number in range(DRAIN_ROUNDS):
            self.world.open_turn()
            peer.take_all()
            self.world.end_turn()
            if not self.world.oracle.holds(SELECTED, colour):
                break
            if self.world.workers.choices():
                self.world.open_turn()
                self.world.workers.drain()
                self.world.end_turn()
                # Messages that a failed disk holds back are readable once they are written, and a retry takes time.
                is_stuck = number % ROUNDS_WITHOUT_TIME == ROUNDS_WITHOUT_TIME - 1
            else:
                is_stuck = True
            if is_stuck:
                self._wait_for_timer()
        else:
            raise Violation(f"a consumer that asks for {colour} starves: {self.world.broker.inspect()}")
        self.world.open_turn()
        peer.disconnect()
        self.world.end_turn()

    def _wait_for_timer(self) -> None:
        self.world.broker.sync()  # records that nobody waits for are also synced, a little later
        next_ms = self.world.timers.next_ms()
        assert next_ms is not None, "the expiry scan always waits"
        self.world.advance(max(0, next_ms - self.world.clock.now_ms))

    def _is_drained(self) -> bool:
        broker = self.world.broker
        return (
            not self.world.total_depth()
            and self.world.store.is_accepting()
            and not broker.has_unsynced()
            and self._are_replays_done()
            and not self.world.page_fault()  # it is requested again
            and all(peer.is_at_rest() for peer in self.world.peers)
        )
