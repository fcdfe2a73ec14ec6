"""A well-behaved STOMP client in a simulated gateway that remembers its confirmations.

It sends persistent messages to a queue that nobody else may use, and receives them, singly and in transactions.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Protocol

from tests.support.hostile.hostile_config import HONEST
from tests.support.protocols.stomp_gateway import Received, StompSpeech
from tests.support.world.bodies import Violation

KEPT: Final = "/queue/honest.kept"
SECRET: Final = b"honest:"  # the beginning of every body that only the witness may read
OWED_MOST: Final = 8  # more transactions than a connection may have open: those that wait for a gate do not count
ROUNDS_MOST: Final = 200
ROUND_MS: Final = 500

Facts = list[Callable[[], None]]


class WitnessGateway(Protocol):
    def open(self) -> StompSpeech: ...
    def advance(self, milliseconds: int) -> None: ...
    def depth(self, name: str) -> int: ...


class Witness:
    """sent: numbers of messages with a confirmed SEND.  asked: those with an ACK.  taken: those with a confirmed ACK.

    held: number -> ack id of an unsettled message.  owed: receipt -> the facts that it confirms.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.sent: set[int] = set()
        self.asked: set[int] = set()
        self.taken: set[int] = set()
        self.came: set[int] = set()
        self.held: dict[int, str] = {}
        self.owed: dict[str, Facts] = {}
        self.peer: StompSpeech | None = None
        self._next = 1

    def gone(self) -> None:
        """Note that its connection or the gateway has ended."""
        self.peer = None
        self.held = {}
        self.owed = {}

    def step(self, gateway: WitnessGateway) -> None:
        """Do one action, unless an earlier one waits at a gate."""
        draw = self.draw
        if self.peer is None:
            self._join(gateway)
        elif len(self.owed) >= OWED_MOST:
            return
        elif draw.randrange(12) == 0:
            self._receipt("DISCONNECT", [])
        else:
            in_transaction = draw.randrange(3) == 0
            facts: Facts = []
            if in_transaction:
                self._send("BEGIN", transaction="w")
            for _ in range(draw.choice((1, 1, 3))):
                if self.held and draw.randrange(2):
                    self._acknowledge(facts, in_transaction)
                else:
                    self._publish(facts, in_transaction)
            if in_transaction:
                self._receipt("COMMIT", facts, transaction="w")

    def look(self) -> None:
        """Take the received frames.  Raises: Violation."""
        peer = self.peer
        if peer is None:
            return
        for frame in peer.take():
            if frame.command == "MESSAGE":
                self._delivered(frame)
            elif frame.command == "RECEIPT":
                for fact in self.owed.pop(frame["receipt-id"]):
                    fact()
            elif frame.command != "CONNECTED" and frame.headers.get("condition") != "timed-out":
                raise Violation(f"the witness got {frame}")
        if peer.is_closed:
            self.gone()

    def finish(self, gateway: WitnessGateway) -> None:
        """Receive all remaining messages, and check that none is missing.  Raises: Violation."""
        for _ in range(ROUNDS_MOST + gateway.depth("honest.kept")):  # a prefetch of 1 gets one in each
            if self.peer is None:
                self._join(gateway)
            for number in list(self.held):
                self._ask(number, [], False)
            gateway.advance(ROUND_MS)
            self.look()
            if not self.owed and not self.held and not gateway.depth("honest.kept"):
                break
        missing = sorted(self.sent - self.asked - self.came)
        if missing or gateway.depth("honest.kept"):
            raise Violation(
                f"confirmed and never seen again: {missing[:10]}; {gateway.depth('honest.kept')} messages are left, "
                f"{len(self.owed)} confirmations did not come"
            )
        if self.peer is not None:
            self.peer.vanish()
        self.gone()

    # -- the steps

    def _join(self, gateway: WitnessGateway) -> None:
        self.peer = peer = gateway.open()
        peer.send("CONNECT", accept_version="1.2", host="h", login=HONEST[0], passcode=HONEST[1])
        peer.answer_login(is_allowed=True)
        peer.subscribe(KEPT, "client-individual", "w", **{"activemq.prefetchSize": self.draw.choice(("1", "2", "100"))})

    def _send(self, command: str, body: bytes = b"", **headers: str) -> None:
        assert self.peer is not None
        if not self.peer.is_closed:
            self.peer.send(command, body, **headers)

    def _receipt(self, command: str, facts: Facts, body: bytes = b"", **headers: str) -> None:
        number = str(self._next)
        self._next += 1
        self.owed[number] = facts
        self._send(command, body, receipt=number, **headers)

    def _publish(self, facts: Facts, in_transaction: bool) -> None:
        number = self._next
        self._next += 1
        body = SECRET + b"%d" % number
        if in_transaction:
            facts.append(lambda: self.sent.add(number))
            self._send("SEND", body, destination=KEPT, persistent="true", transaction="w")
        else:
            self._receipt("SEND", [lambda: self.sent.add(number)], body, destination=KEPT, persistent="true")

    def _acknowledge(self, facts: Facts, in_transaction: bool) -> None:
        self._ask(self.draw.choice(list(self.held)), facts, in_transaction)

    def _ask(self, number: int, facts: Facts, in_transaction: bool) -> None:
        ack = self.held.pop(number)
        self.asked.add(number)
        if in_transaction:
            facts.append(lambda: self.taken.add(number))
            self._send("ACK", id=ack, transaction="w")
        else:
            self._receipt("ACK", [lambda: self.taken.add(number)], id=ack)

    def _delivered(self, frame: Received) -> None:
        number = int(frame.body.removeprefix(SECRET))
        if number in self.taken:
            raise Violation(f"message {number} comes again, though its ACK was confirmed")
        if number in self.held:
            raise Violation(f"message {number} came twice on one connection")
        self.came.add(number)
        self.held[number] = frame["ack"]
