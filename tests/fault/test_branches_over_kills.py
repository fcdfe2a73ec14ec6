"""``kill -9`` between any two commands of a distributed transaction: it is prepared, finished or gone, as a whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from protocols.openwire.session.branch_commands import COMMIT_TWO_PHASE, END, PREPARE, RECOVER, ROLLBACK
from protocols.openwire.session.requests import BEGIN
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import Command, DataArrayResponse, ExceptionResponse, TransactionInfo
from protocols.openwire.wire.identities import Destination, XaTransactionId
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.raw_openwire import GatewayGone, RawOpenWire, take_all
from tests.support.process.waiting import wait_until

OUTCOMES: Final = [COMMIT_TWO_PHASE, ROLLBACK]
ALL_BEFORE: Final = 5  # commands until the branch is prepared
CUTS: Final = range(1, ALL_BEFORE + 3)


class Work:
    """One branch that takes a message of one queue and sends one to another."""

    def __init__(self, gateway: GatewayProcess, name: str, outcome: int) -> None:
        self.gateway = gateway
        self.taken, self.sent = f"{name}.in", f"{name}.out"
        self.outcome = outcome
        self.xid = XaTransactionId(7, name.encode(), b"")
        self.client = RawOpenWire(gateway, f"ID:{name}-1")
        self.answered = 0
        self.commands: list[Command] = []

    def fill(self) -> None:
        for number in range(2):
            message = self.client.message(Destination(identities.QUEUE, self.taken), f"m{number}", number + 1)
            self.client.ask(message)

    def run(self, cut: int, waits: bool) -> None:
        """Send the first commands; the gateway is killed after the last, once it is answered or at once."""
        client = self.client
        client.consume(Destination(identities.QUEUE, self.taken))
        dispatch = client.take()
        assert dispatch is not None
        self.commands = [
            self.info(BEGIN),
            client.ack_of(dispatch, transaction_id=self.xid),
            client.message(Destination(identities.QUEUE, self.sent), "answer", 10, transaction_id=self.xid),
            self.info(END),
            self.info(PREPARE),
            self.info(self.outcome),
        ]
        try:
            for number, command in enumerate(self.commands[:cut], start=1):
                if number < cut or waits:
                    client.ask(command)
                    self.answered = number
                else:
                    client.number(command)
                    command.response_required = True
                    client.send(command)
        except GatewayGone:
            pytest.fail("it is not killed yet")
        self.gateway.kill9()
        client.close()

    def info(self, kind: int) -> TransactionInfo:
        return TransactionInfo(transaction_id=self.xid, type=kind)

    def recovered(self) -> bool:
        client = RawOpenWire(self.gateway, f"ID:{self.xid.global_id.decode()}-2")
        answer = client.ask(TransactionInfo(type=RECOVER))
        client.close()
        assert isinstance(answer, DataArrayResponse)
        return self.xid in (answer.data or [])

    def finish(self) -> None:
        """Let another connection finish what is prepared."""
        client = RawOpenWire(self.gateway, f"ID:{self.xid.global_id.decode()}-3")
        assert not isinstance(client.ask(self.info(self.outcome)), ExceptionResponse)
        client.close()

    def left(self) -> tuple[list[tuple[str | None, bool]], list[tuple[str | None, bool]]]:
        """Return what is in both queues, as a consumer gets it."""
        name = self.xid.global_id.decode()
        return take_all(self.gateway, self.taken, f"ID:{name}-4"), take_all(self.gateway, self.sent, f"ID:{name}-5")


def returned(gateway: GatewayProcess, name: str) -> bool:
    return ("m0", True) in take_all(gateway, name, "ID:looks")


@pytest.mark.parametrize("waits", [True, False], ids=["answered", "at-once"])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=["commit", "rollback"])
def test_a_branch_is_whole_after_a_kill(
    start_gateway: StartGateway, unique: Callable[[str], str], outcome: int, waits: bool
) -> None:
    gateway = start_gateway()
    for cut in CUTS:
        work = Work(gateway, unique(f"cut{cut}"), outcome)
        work.fill()
        work.run(cut, waits)
        gateway.start()
        is_prepared = work.recovered()
        if work.answered == ALL_BEFORE and cut == ALL_BEFORE:
            assert is_prepared, "PREPARE was answered"
        if work.answered > ALL_BEFORE or cut < ALL_BEFORE:
            assert not is_prepared
        if is_prepared:
            texts = [text for text, _ in take_all(gateway, work.taken, "ID:looks")]
            assert texts == ["m1"], "nobody gets what it has acknowledged"
            assert take_all(gateway, work.sent, "ID:looks") == []
            work.finish()
            if outcome == ROLLBACK:
                wait_until(partial(returned, gateway, work.taken), "what the branch had acknowledged is back")
            gateway.kill9()
            gateway.start()
            assert not work.recovered()
        taken, sent = work.left()
        assert [text for text, _ in sent] in ([], ["answer"])
        is_committed = sent != []
        if cut < ALL_BEFORE:
            assert not is_committed
        elif is_prepared or work.answered > ALL_BEFORE:
            assert is_committed == (outcome == COMMIT_TWO_PHASE)
        assert [text for text, _ in taken] == (["m1"] if is_committed else ["m0", "m1"])


@pytest.mark.parametrize("waits", [True, False], ids=["answered", "at-once"])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=["commit", "rollback"])
def test_a_failover_client_finishes_its_branch(
    start_gateway: StartGateway, unique: Callable[[str], str], outcome: int, waits: bool, is_long: bool
) -> None:
    """It sends all that has no outcome again, as it was, and then goes on; each message is there once or not at all."""
    gateway = start_gateway()
    for cut in CUTS if is_long else CUTS[-3:]:
        name = unique(f"again{cut}")
        xid = XaTransactionId(7, name.encode(), b"")
        client = RawOpenWire(gateway, f"ID:{name}")
        place = Destination(identities.QUEUE, name)
        commands: list[Command] = [
            TransactionInfo(transaction_id=xid, type=BEGIN),
            client.message(place, "1", 1, transaction_id=xid),
            client.message(place, "2", 2, transaction_id=xid),
            TransactionInfo(transaction_id=xid, type=END),
            TransactionInfo(transaction_id=xid, type=PREPARE),
            TransactionInfo(transaction_id=xid, type=outcome),
        ]
        for command in commands:
            client.number(command)
            command.response_required = True
        for number, command in enumerate(commands[:cut], start=1):
            if number < cut or waits:
                client.ask(command)
            else:
                client.send(command)
        gateway.kill9()
        client.close()
        gateway.start()
        again = RawOpenWire(gateway, f"ID:{name}", is_again=True)
        again.command_id = client.command_id
        answers = [again.ask(command) for command in commands]
        again.close()
        assert not any(isinstance(one, ExceptionResponse) for one in answers)
        gateway.kill9()
        gateway.start()
        texts = [text for text, _ in take_all(gateway, name, f"ID:{name}-after")]
        assert texts == (["1", "2"] if outcome == COMMIT_TWO_PHASE else [])
