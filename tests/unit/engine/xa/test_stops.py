"""A stop before, in or after each operation of the disk leaves a branch in one state, whole."""

from __future__ import annotations

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import AUTO, CLIENT
from engine.open_transaction import TransactionLimits
from engine.store.settings import StoreSettings
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from engine.values.xid import Xid
from tests.support.disk.crash_points import StoppableFiles, disks_left_by
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeClient
from tests.support.store.store_home import FileHome

XID = Xid(1, b"tx", b"a")


class Gateway(BrokerView):
    """A broker on a disk in memory, and one client."""

    def __init__(self, files: StoppableFiles) -> None:
        self.home = FileHome(StoreSettings(segment_bytes=8192), files=files)
        super().__init__(Broker(self.home.store, self.home.clock, self.home.timers, AddressMatcher(()), 64 << 20))
        self.client = FakeClient()
        self.broker.connect(self.client)

    def live(self) -> None:
        """Do everything that is to be done, and make it durable."""
        self.home.live_on(self.broker, 5, 10)

    def message(self, name: str, body: bytes) -> Message:
        return Message(self.queue(name).destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", body)

    def begin(self) -> None:
        """Begin a branch that has acknowledged two messages and sends two large ones."""
        for number in range(3):
            self.broker.send(self.queue("q"), self.message("q", b"%d" % number))
        self.broker.subscribe(self.client, self.queue("q"), SubscribeOptions(CLIENT, 10, "s")).start()
        self.live()
        self.branches.begin(self.client, XID, TransactionLimits())
        transaction = self.branches.active(self.client, XID).transaction
        transaction.add_accepted(self.client.take()[:2])
        for number in range(2):
            self.broker.send_in(transaction, self.queue("out"), self.message("out", b"%d" % number * 3_000))

    def prepare(self) -> None:
        self.branches.prepare(self.branches.active(self.client, XID))
        self.live()

    def decide(self, is_commit: bool) -> None:
        branch = self.branches.require_prepared(self.client, XID)
        if is_commit:
            self.branches.commit(branch)
        else:
            self.branches.roll_back(branch)
        self.live()

    def found(self) -> tuple[bool, int, int]:
        """Return whether the branch is prepared, and how many messages consumers get of ``q`` and ``out``."""
        counts = []
        for name in ("q", "out"):
            self.broker.subscribe(self.client, self.queue(name), SubscribeOptions(AUTO, 10, "s")).start()
            self.live()
            counts.append(len(self.client.bodies()))
        return bool(self.branches.prepared()), counts[0], counts[1]


NOTHING = (False, 3, 0)
PREPARED = (True, 1, 0)
COMMITTED = (False, 1, 2)


@pytest.mark.parametrize("is_power_cut", [True, False])
@pytest.mark.parametrize("work", ["prepare", "commit", "roll back"])
def test_a_branch_is_in_one_state_whole(work: str, is_power_cut: bool) -> None:
    files = StoppableFiles(1)
    gateway = Gateway(files)
    gateway.begin()
    before, after = NOTHING, PREPARED
    if work == "prepare":
        left = disks_left_by(files, gateway.prepare, is_power_cut)
    else:
        gateway.prepare()
        before, after = PREPARED, COMMITTED if work == "commit" else NOTHING
        left = disks_left_by(files, lambda: gateway.decide(work == "commit"), is_power_cut)
    found = [Gateway(disk).found() for disk in left]
    assert set(found) == {before, after}
    assert found[-1] == after
