"""SEND, and COMMIT with the sends of its transaction: into the engine, or into the wait at a shut gate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.api import EngineApi
from engine.features.scheduler.cron import SEARCH_STEPS
from engine.limits.producer_gates import ProducerGates
from engine.sources.composite import Destination
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.message import STOMP as STOMP_ENCODING
from engine.values.message import Message
from protocols.blocked_sends import BlockedSend, addresses_of, send_paced
from protocols.connection import ProtocolConnection
from protocols.input_share import COMMITTED_STEPS
from protocols.session.blocked_frames import BlockedFrames, addresses_sent_to
from protocols.stomp.codec.frames import Frame
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.schedule_headers import CRON
from protocols.stomp.mapping.send_target import SendTarget, send_target
from protocols.stomp.session.receipts import Receipts
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.transactions import Transactions
from protocols.stomp.session.unsettled import Unsettled

HEAD_STEPS: Final = 6  # of a turn, for a SEND with another head than the earlier ones
BLOCK_A_STEP: Final = 16  # octets of header lines that pass through to the MESSAGE
FRAME_OVERHEAD_BYTES: Final = 512  # memory of a frame's objects, without head and body, rounded up


class BlockedFrame(BlockedSend):
    """A SEND to an address that takes nothing now, a COMMIT, or DISCONNECT behind them.

    Source: docs/reference/semantics.md, "Full addresses".
    """

    __slots__ = ("frame",)

    def __init__(self, frame: Frame, addresses: list[str], size_bytes: int) -> None:
        super().__init__(addresses, size_bytes)
        self.frame = frame


def frame_bytes(frame: Frame) -> int:
    """Return the memory of a waiting frame.  A head that frames share counts for each of them."""
    head = frame.head
    size = FRAME_OVERHEAD_BYTES + len(frame.body) + len(head.block) + len(frame.receipt or b"")
    for name, value in head.headers.items():
        size += len(name) + len(value)
    return size


@dataclass(slots=True, eq=False)
class SendCommand:
    engine: EngineApi
    client: ProtocolConnection
    settings: SessionSettings
    resolver: DestinationResolver
    blocked: BlockedFrames[BlockedFrame]
    transactions: Transactions
    unsettled: Unsettled
    receipts: Receipts
    producer_gates: ProducerGates = field(init=False)

    def __post_init__(self) -> None:
        self.producer_gates = self.engine.producer_gates

    def take(self, frame: Frame) -> None:
        """Take a SEND.  Raises: InvalidHeader, EngineError, ParkedTooMuch."""
        head = frame.head
        target = head.mapped
        if not isinstance(target, SendTarget):
            name = head.headers.get("transaction")
            if name is not None:
                self.transactions.named(name)
            if CRON in head.headers:
                self.client.share.charge(SEARCH_STEPS)
            steps = self.engine.steps
            before = steps.left
            target = self._target(frame)
            made = before - steps.left  # a destination; the engine counts its part, and here it counts for the share
            self.client.share.charge(HEAD_STEPS + len(target.block) // BLOCK_A_STEP + made)
        if target.steps:
            self.client.share.charge(target.steps)
        message = Message(
            target.destination_id,
            STOMP_ENCODING,
            target.flags,
            target.priority,
            target.tag_hash,
            target.group_hash,
            target.expires_ms,
            b"",
            target.block,
            frame.body,
        )
        destination = target.destination
        if target.transaction is not None:
            self.engine.send_in(self.transactions.named(target.transaction), destination, message)
        elif self.blocked.addresses and self.blocked.holds(destination):
            self._park_send(frame, destination, gates.OPEN)
            return
        else:
            paced = target.paced
            if paced is None:
                gate = self.engine.send(destination, message)
            else:
                gate = send_paced(self.engine, self.client, paced, destination, message)
            if gate != gates.OPEN:
                self._park_send(frame, destination, gate)
                return
            if target.is_persistent:
                self.receipts.has_logged = True
        receipt = frame.receipt
        if receipt is not None:
            self.receipts.parts.append(receipt)

    def commit(self, frame: Frame) -> None:
        """Take a COMMIT.  Raises: InvalidHeader, EngineError, ParkedTooMuch."""
        transaction = self.transactions.take(frame)
        try:
            gate, behind = self.engine.commit_refusal(transaction, self.blocked.addresses)
        except EngineError:
            self.engine.abort(transaction)
            raise
        if behind is not None:
            self.transactions.committing[frame] = transaction
            size_bytes = frame_bytes(frame) + transaction.memory_bytes()
            self.blocked.wait(BlockedFrame(frame, addresses_sent_to(transaction, behind), size_bytes), behind, gate)
            return
        self.client.share.charge(COMMITTED_STEPS * transaction.action_count)
        self.unsettled.forget(transaction.enlisted())
        self.engine.commit(transaction)
        self.receipts.has_logged = True
        self.receipts.confirm(frame)

    def _target(self, frame: Frame) -> SendTarget:
        """Raises: InvalidHeader, EngineError."""
        resolver = self.resolver
        known = len(resolver.aliases)
        target = send_target(frame.head, resolver, self.settings.default_persistent, self.settings.dialect, frame.body)
        if len(resolver.aliases) > known:
            self.unsettled.rewrite_each_message()
        return target

    def _park_send(self, frame: Frame, destination: Destination, gate: int) -> None:
        one = BlockedFrame(frame.kept(), addresses_of(destination), frame_bytes(frame))
        self.blocked.wait(one, destination, gate)
