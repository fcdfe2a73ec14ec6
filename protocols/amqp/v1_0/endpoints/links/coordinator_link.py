"""The link to the coordinator of transactions: a peer's declares and discharges.  Source: AMQP 1.0 part 4."""

from __future__ import annotations

from typing import Final

from engine.values.errors import EngineError, TransactionError
from protocols.amqp.v1_0.endpoints.links.link import MASK, SessionEndpoint
from protocols.amqp.v1_0.endpoints.links.multi_transfers import MultiTransfers
from protocols.amqp.v1_0.endpoints.links.target_link import TargetLink, check_first, check_supported
from protocols.amqp.v1_0.endpoints.links.transactions import Transactions
from protocols.amqp.v1_0.wire.composites.composite_codec import read_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Declared
from protocols.amqp.v1_0.wire.composites.performatives import Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source
from protocols.amqp.v1_0.wire.composites.transaction_types import TRANSACTION_CODES, Declare, Discharge
from protocols.amqp.v1_0.wire.errors import DecodeError, LinkError, RolledBack, SentSettled, TransferLimitExceeded
from protocols.amqp.v1_0.wire.messages.scanner import Scanner
from protocols.amqp.v1_0.wire.messages.sections import FOOTER, VALUE

CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
COORDINATOR_CREDIT: Final = 100
REQUEST_STEPS: Final = 15  # of a turn, for a declare or discharge
REQUEST_BYTES_MOST: Final = 65_536  # of its message


class CoordinatorLink(TargetLink):
    """The peer declares and discharges on it; a failure ends a link without the outcome rejected (4.2, 4.3)."""

    __slots__ = ("transactions",)  # those of the connection

    def __init__(
        self,
        session: SessionEndpoint,
        name: str,
        handle: int,
        peer_handle: int,
        source: Source | None,
        multi_transfers: MultiTransfers,
        transactions: Transactions,
    ) -> None:
        super().__init__(session, name, handle, peer_handle, source, multi_transfers, REQUEST_BYTES_MOST)
        self.transactions = transactions

    def grant(self) -> None:
        self.credit = COORDINATOR_CREDIT
        self.send_credit()

    def send_credit(self) -> None:
        self.session.send_link_flow(self, self.credit, 0, False)

    def take(self, transfer: Transfer, payload: bytes) -> None:
        """Raises: LinkError, UnknownTransaction."""
        if self.partial is None:
            if self.credit <= 0:
                raise TransferLimitExceeded(f"the coordinator's link {self.name[:200]!r} has no credit left")
            self.delivery_count = (self.delivery_count + 1) & MASK
            self.credit -= 1
            if self.credit <= COORDINATOR_CREDIT // 2:
                self.grant()
        whole = self.gather(transfer, payload)
        if whole is None:
            return
        self.session.connection.share.charge(REQUEST_STEPS)
        transfer = whole.first
        delivery_id = check_first(transfer)
        if transfer.settled:
            raise SentSettled("a message to the coordinator is settled; its outcome must be taken (4.2, 4.3)")
        try:
            check_supported(transfer)
            request = _request(bytes(whole.headers) + whole.body.getvalue())
            if isinstance(request, Declare):
                if request.global_id is not None:
                    raise TransactionError("declare has a global-id; only local transactions are supported")
                self.answer(delivery_id, False, Declared(self.transactions.declare(self)))
            else:
                self._require_whole(request.txn_id)
                self.transactions.discharge(self, delivery_id, request)
        except RolledBack:
            raise
        except (DecodeError, EngineError, LinkError) as error:
            self.reject(delivery_id, False, error)

    def close(self, is_lost: bool, is_closing: bool) -> None:
        self.drop_partial()
        self.transactions.close_all(self)

    def _require_whole(self, txn_id: bytes) -> None:
        """Raises: RolledBack where a delivery of the transaction is under way still (4.4.1)."""
        if self.multi_transfers.has_part_of(txn_id):
            raise RolledBack(f"transaction {txn_id.hex()[:64]} has a delivery that is not whole")


def _request(payload: bytes) -> Declare | Discharge:
    """Return the declare or discharge in the body of a message to the coordinator.  Raises: DecodeError."""
    body = Scanner().scan(payload).body
    if body[:3] != bytes((0, 0x53, VALUE)):
        raise DecodeError("a message to the coordinator has no amqp-value")
    request, end = read_composite(body, 3, TRANSACTION_CODES)
    if end < len(body) and body[end : end + 3] != bytes((0, 0x53, FOOTER)):
        raise DecodeError(f"a message to the coordinator has {len(body) - end} octets behind its declare or discharge")
    assert isinstance(request, (Declare, Discharge)), "the codes allow nothing else"
    return request
