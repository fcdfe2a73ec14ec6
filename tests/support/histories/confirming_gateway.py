"""A gateway whose disk syncs only on request, and whose power may be cut at any moment: STOMP and AMQP."""

from __future__ import annotations

from engine.ports.workers import READ_LANE, SYNC_LANE
from tests.support.fakes import HeldWorkers
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.store.memory_store import MemoryStore

SYNCS_MOST = 5  # turns that one confirmation may wait for


class ConfirmingGateway(AmqpGateway):
    """Turns like those of the gateway's loop: a sync happens only if somebody waits for it.

    confirms_early: the planted bug: appended records count as durable.
    """

    def __init__(self, store: MemoryStore | None = None, *, confirms_early: bool = False) -> None:
        workers = HeldWorkers()
        kept = MemoryStore(workers, "c0ffee00", 1, True) if store is None else store.restarted(workers)
        super().__init__(store=kept, workers=workers)
        self.syncs = False
        self.confirms_early = confirms_early

    def settle(self) -> None:
        if self._is_held:
            return
        while True:
            offset = self.broker.end_turn()
            confirmed_offset = offset if self.confirms_early else self.store.confirmed_offset()
            for peer in self.peers:
                peer.flush(offset, confirmed_offset)
            if self.confirms_early:
                self.report_durable(self.store.append_offset())
            elif self.awaiting():
                self.store.sync()
            self.broker.begin_turn()
            if (
                not self.workers.finish(READ_LANE)
                and not self.broker.has_more_to_do()
                and not any(peer.link.is_touched for peer in self.peers)
            ):
                return

    def sync_once(self) -> bool:
        """End the syncs that are under way; return whether there were any."""
        is_synced = self.workers.finish(SYNC_LANE)
        self.settle()
        return is_synced

    def sync_all(self) -> None:
        """Make everything durable, even if nobody waits for it."""
        self.settle()
        self.broker.sync()
        while self.workers.finish(SYNC_LANE):
            self.settle()

    def after_power_cut(self) -> ConfirmingGateway:
        """Return a gateway that starts with the durable octets only."""
        return ConfirmingGateway(self.store)

    # -- questions

    def failed_attempts(self, name: str) -> int:
        """Return how often the next message of a queue has failed, -1 if there is none."""
        peer = self.connect("1.2")
        peer.subscribe(f"/queue/{name}")
        messages = peer.messages()
        return int(messages[0].headers.get("JMSXDeliveryCount", "1")) - 1 if messages else -1

    def has_subscription(self, client_id: str, name: str) -> bool:
        return (client_id, name, True) in self.subscriptions()
