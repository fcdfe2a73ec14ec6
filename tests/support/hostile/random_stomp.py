"""One STOMP client with every documented operation in any order, drawn from a seed."""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frames import COMMANDS, CONNECTED, ERROR, MESSAGE, Frame
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from tests.support.hostile.hostile_config import HOSTILE, KINDS
from tests.support.typed import typed_stomp

VERSIONS: Final = {"1.0": VERSION_1_0, "1.1": VERSION_1_1, "1.2": VERSION_1_2}
CLIENT_IDS: Final = ("c1", "c2", "c3")
SELECTORS: Final = (
    "a = ",
    *(
        "a = '1'",
        "a LIKE '%1%'",
        "JMSPriority > 4",
        "a IN ('1','2') AND NOT b IS NULL",
        "1 = 1",
        "JMSPriority BETWEEN 1 AND 5",
    ),
    *("XPATH '//a'", "JMSXGroupID IS NOT NULL", "(" * 30 + "a = '1'" + ")" * 30, "a LIKE '%%%_%_%1' ESCAPE '!'"),
)
SCHEDULES: Final = (
    {"AMQ_SCHEDULED_DELAY": "50"},
    {"AMQ_SCHEDULED_DELAY": "20", "AMQ_SCHEDULED_PERIOD": "100", "AMQ_SCHEDULED_REPEAT": "3"},
    {"AMQ_SCHEDULED_PERIOD": "100", "AMQ_SCHEDULED_REPEAT": "2"},
    {"AMQ_SCHEDULED_CRON": "* * * * *"},
    {"AMQ_SCHEDULED_TIME": "1900000000000"},
    {"_AMQ_SCHED_DELIVERY": "1"},
    {"AMQ_SCHEDULED_DELAY": "100000", "expires": "9223372036854775807"},
    {"AMQ_SCHEDULED_CRON": "0 0 31 2 *"},
)
REPLAYS: Final = (
    *({"from-offset": "first"}, {"from-offset": "0", "browser": "true"}, {"from-offset": "last"}),
    *({"from-time": "0"}, {"x-stream-offset": "first"}, {"x-stream-offset": "timestamp=1"}, {"from-id": "ID:no-1"}),
    {"x-stream-offset": "next"},
)
MOST_REMEMBERED: Final = 200


def random_name(draw: random.Random, kinds: tuple[str, ...] = KINDS) -> str:
    """Return a name; unless kinds are chosen, fewer names at which a client may wait for ever."""
    kind = draw.choice(kinds)
    if kinds is KINDS and kind in ("wait", "few") and draw.randrange(8):
        kind = "plain"
    return f"{kind}.{draw.randrange(1, 4)}"


def target(draw: random.Random, is_wild: bool, kinds: tuple[str, ...] = KINDS) -> str:
    """Return an allowed destination for a SEND; for wild clients sometimes a forbidden one."""
    kind = draw.randrange(24 if is_wild else 20)
    if kind < 10:
        return f"/queue/{random_name(draw, kinds)}"
    if kind < 15:
        return f"/topic/{random_name(draw, kinds)}"
    if kind < 17:
        return f"/temp-{draw.choice(('queue', 'topic'))}/{draw.choice('xyz')}"
    if kind == 17:
        return ",".join(
            f"/{draw.choice(('queue', 'topic'))}/{random_name(draw, kinds)}" for _ in range(draw.randrange(2, 5))
        )
    if kind == 18:
        return draw.choice(("/topic/VirtualTopic.v", "/queue/ActiveMQ.DLQ", "/queue/Consumer.b.VirtualTopic.v"))
    if kind == 19:
        return f"/queue/new.{draw.randrange(1000)}"
    if kind == 20:
        return draw.choice(
            ("/queue/honest.kept", "/topic/honest.topic", "/queue/honest.trip", "/queue/a,/queue/honest.kept")
        )
    return draw.choice(("/queue/>", "/topic/*.1", "/queue/", "x y", "/q/a", "/exchange/a/b", "/queue/a?consumer.x=1"))


def source(draw: random.Random, is_wild: bool, kinds: tuple[str, ...] = KINDS) -> str:
    """Return a destination for a SUBSCRIBE."""
    kind = draw.randrange(12)
    if kind == 0:
        return draw.choice(("/queue/>", "/topic/>", "/queue/plain.*", "/queue/*.1", "/topic/past.>", "/topic/*.2"))
    if kind == 1:
        option = draw.choice(("prefetchSize=1", "exclusive=true", "priority=3", *(("x=1",) if is_wild else ())))
        return f"/queue/{random_name(draw, kinds)}?consumer.{option}"
    if kind == 2:
        return draw.choice(("/queue/Consumer.a.VirtualTopic.v", "/topic/ActiveMQ.Advisory.>", "/queue/ActiveMQ.DLQ"))
    return target(draw, is_wild, kinds)


class RandomStomp:
    """The state of one connection, and its next octets.  kinds: of the addresses that it names.

    Two of three clients are mostly well-behaved, so that they live long enough to get far; the others are wild.
    is_refused: an ERROR came.  bodies: of received messages; a reader removes them.
    """

    def __init__(self, draw: random.Random, kinds: tuple[str, ...] = KINDS) -> None:
        self._draw = draw
        self._kinds = kinds
        self._is_wild = draw.randrange(3) == 0
        self._client_id = draw.choice(CLIENT_IDS) if not draw.randrange(3) else ""
        self._version_text = draw.choice(("1.0", "1.1", "1.2", "1.2"))
        self._version = VERSIONS[self._version_text]
        self._decoder = Decoder()
        self._decoder.limits = FrameLimits(header_line_bytes=1 << 30)  # a property of an AMQP message may be long
        self._subscriptions: list[tuple[str, str]] = []
        self._transactions: list[str] = []
        self._messages: deque[tuple[str, str, str]] = deque(maxlen=MOST_REMEMBERED)
        self._jobs: deque[str] = deque(maxlen=20)
        self._next_number = 0
        self._receipts: set[str] = set()
        self._is_broken = False  # its last octets may be half a frame
        self.bodies: list[bytes] = []
        self.is_refused = False

    # -- input

    def receive_data(self, octets: bytes) -> bytes:
        """Take the gateway's octets without an answer.  Raises: FrameError if they are no STOMP."""
        self._decoder.receive_data(octets)
        while (frame := self._decoder.next_frame()) is not None:
            self._take(frame)
        return b""

    def _take(self, frame: Frame) -> None:
        headers = frame.head.headers
        if frame.command == CONNECTED:
            self._version = self._decoder.version = VERSIONS[headers.get("version", "1.0")]
        elif frame.command == ERROR:
            self.is_refused = True
        elif frame.command == MESSAGE:
            if self._is_wild or self._version != VERSION_1_2 or "ack" in headers:
                named = (headers.get("message-id", ""), headers.get("ack", ""), headers.get("subscription", ""))
                self._messages.append(named)
            self.bodies.append(frame.body)
            if "scheduledJobId" in headers:
                self._jobs.append(headers["scheduledJobId"])

    # -- output

    def opening(self) -> bytes:
        draw = self._draw
        headers = [("login", HOSTILE[0]), ("passcode", HOSTILE[1] if draw.randrange(20) else "wrong")]
        if self._version_text != "1.0":
            headers.append(("accept-version", draw.choice((self._version_text, "1.0,1.1,1.2"))))
            headers.append(("host", "h"))
        if self._client_id:
            headers.append(("client-id", self._client_id))
        if not draw.randrange(4):
            headers.append(
                ("heart-beat", draw.choice(("0,0", "5000,1000", "0,100", *(("1,x",) if self._is_wild else ()))))
            )
        if self._is_wild and not draw.randrange(4):
            headers += list(typed_stomp.some(draw, typed_stomp.CONNECT_NAMES, 2).items())
        return self._frame(draw.choice(("CONNECT", "STOMP")), headers)

    def operation(self) -> bytes:
        """Return the octets of one or more frames; some of them are broken."""
        draw = self._draw
        kind = draw.randrange(100)
        if kind < 42:
            return self._send()
        if kind < 52:
            return self._subscribe()
        if kind < 57:
            return self._unsubscribe()
        if kind < 77:
            return self._settle()
        if kind < 88:
            return self._transact()
        if kind < 91:
            return self._management()
        if kind < 92 or not (self._is_wild or draw.randrange(20) == 0):
            return b"\n" * draw.randrange(1, 5)
        if kind < 97:
            return self._odd()
        if kind < 98:
            return self._frame("DISCONNECT", self._with_receipt([]))
        self._is_broken = True
        return broken(draw, self._send())

    def goodbye(self) -> bytes:
        """Return a DISCONNECT after the end of a cut frame: a lenient dialect would read it as a header."""
        return b"\0" * self._is_broken + self._frame("DISCONNECT", [("receipt", "bye")])

    def _frame(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> bytes:
        return encode(COMMANDS[command.encode()], headers, body, self._version)

    def _with_receipt(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        if self._draw.randrange(3):
            return headers
        self._next_number += 1
        return [*headers, ("receipt", str(self._next_number))]

    def _transaction(self) -> list[tuple[str, str]]:
        draw = self._draw
        if self._transactions and not draw.randrange(3):
            return [("transaction", draw.choice(self._transactions))]
        return [("transaction", "none")] if self._is_wild and not draw.randrange(40) else []

    def _send(self) -> bytes:
        draw = self._draw
        headers = [("destination", target(draw, self._is_wild, self._kinds)), *self._transaction()]
        if draw.randrange(2):
            headers.append(("persistent", "true"))
        if not draw.randrange(3):
            headers += [("a", draw.choice("123")), ("key", draw.choice("xyz"))]
        if not draw.randrange(5):
            headers.append(("priority", draw.choice("0123456789")))
        if not draw.randrange(5):
            headers.append(("JMSXGroupID", draw.choice("ghi")))
        if not draw.randrange(8):
            headers.append(("JMSXGroupSeq", draw.choice(("1", "-1", "0"))))
        if not draw.randrange(6):
            headers.append(("expiration", draw.choice(("1", "50", "500", "100000"))))
        if not draw.randrange(6):
            headers.append(("reply-to", target(draw, self._is_wild, self._kinds)))
        if not draw.randrange(8):
            headers += draw.choice(SCHEDULES if self._is_wild else SCHEDULES[:-1]).items()
        if not draw.randrange(8):
            headers.append(("_AMQ_DUPL_ID", draw.choice("123456789")))
        if self._is_wild and not draw.randrange(6):
            headers += typed_stomp.some(draw, typed_stomp.SEND_NAMES, 3).items()
        size = (
            draw.choice((0, 1, 10, 100, 1_000, 5_000, 30_000)) if not self._is_wild or draw.randrange(60) else 300_000
        )
        return self._frame("SEND", self._with_receipt(headers), b"x" * size)

    def _subscribe(self) -> bytes:
        draw = self._draw
        self._next_number += 1
        subscription = str(self._next_number)
        where = source(draw, self._is_wild, self._kinds)
        headers = [("destination", where)]
        if self._version != VERSION_1_0 or draw.randrange(2):
            headers.append(("id", subscription))
        mode = draw.choice(("auto", "client", "client-individual"))
        headers.append(("ack", mode))
        if draw.randrange(2):
            least = 0 if self._is_wild or mode != "auto" else 1
            headers.append(("activemq.prefetchSize", draw.choice(("0", "1", "2", "10", "1000")[least:])))
        if not draw.randrange(4):
            headers.append(
                (draw.choice(("selector", "activemq.selector")), draw.choice(SELECTORS[not self._is_wild :]))
            )
        kind = draw.randrange(20)
        if not self._is_wild and (kind in (0, 1, 2, 3, 4, 5)):
            where = headers[0][1]
            if kind < 2 and not where.startswith("/queue/"):
                kind = 19
            if kind in (2, 3) and not (where.startswith("/topic/") and self._client_id):
                kind = 19
        if kind == 0:
            headers.append(("browser", "true"))
        elif kind == 1:
            headers += draw.choice(REPLAYS).items()
        elif kind in (2, 3):
            headers += [("activemq.subscriptionName", draw.choice(("d1", "d2"))), ("durable", "true")]
        elif kind == 4:
            headers += [
                ("shared-subscription-name", draw.choice(("s1", "s2"))),
                ("durable", draw.choice(("true", "false"))),
            ]
        elif kind == 5:
            headers.append(("activemq.exclusive", "true"))
        elif kind == 6:
            headers.append(("activemq.priority", draw.choice(("-1", "5", "127"))))
        elif kind == 7:
            headers.append(("activemq.retroactive", "true"))
        elif kind == 8:
            headers.append(("no-local", "true"))
        elif kind == 9:
            headers += [("activemq.windowSize", draw.choice(("0", "1", "1000"))), ("activemq.maxRate", "20")]
        elif kind == 10:
            headers.append(("transformation", draw.choice(("jms-map-xml", "jms-map-json", "jms-byte"))))
        elif kind == 11:
            headers += [("activemq.maximumRedeliveries", "1"), ("activemq.redeliveryDelay", "20")]
        elif kind == 12:
            headers += typed_stomp.some(draw, typed_stomp.SUBSCRIBE_NAMES, 3).items()
        self._subscriptions.append((subscription, where))
        return self._frame("SUBSCRIBE", self._with_receipt(headers))

    def _unsubscribe(self) -> bytes:
        draw = self._draw
        if not self._subscriptions or (self._is_wild and not draw.randrange(10)):
            if not self._is_wild:
                return b"\n"
            return self._frame("UNSUBSCRIBE", [("id", "d1"), ("activemq.subscriptionName", "d1")])
        subscription, where = self._subscriptions.pop(draw.randrange(len(self._subscriptions)))
        headers = [("id", subscription), ("destination", where)]
        if self._is_wild and not draw.randrange(6):
            headers.append(("durable", "true"))
        return self._frame("UNSUBSCRIBE", self._with_receipt(headers))

    def _settle(self) -> bytes:
        draw = self._draw
        octets = b""
        for _ in range(draw.choice((1, 1, 3, 10))):
            if not self._messages:
                return octets or b"\n"
            index = draw.randrange(len(self._messages))
            message_id, ack, subscription = self._messages[index]
            if not self._is_wild or draw.randrange(10):
                del self._messages[index]
            if self._version == VERSION_1_2:
                headers = [("id", ack)]
            else:
                headers = [("message-id", message_id)]
                if self._version == VERSION_1_1 or draw.randrange(2):
                    headers.append(("subscription", subscription))
            headers += self._transaction()
            command = draw.choice(("ACK", "ACK", "ACK", "NACK"))
            if command == "NACK" and self._version == VERSION_1_0 and draw.randrange(10):
                command = "ACK"
            if command == "NACK" and draw.randrange(2):
                headers.append(
                    draw.choice((("requeue", "true"), ("requeue", "false"), ("delay", "40"), ("reason", "r" * 99)))
                )
            octets += self._frame(command, self._with_receipt(headers))
        return octets

    def _transact(self) -> bytes:
        draw = self._draw
        if not self._transactions or (len(self._transactions) < 3 and draw.randrange(2)):
            self._next_number += 1
            self._transactions.append(f"t{self._next_number}")
            return self._frame("BEGIN", self._with_receipt([("transaction", self._transactions[-1])]))
        transaction = self._transactions.pop(draw.randrange(len(self._transactions)))
        command = draw.choice(("COMMIT", "COMMIT", "ABORT"))
        return self._frame(command, self._with_receipt([("transaction", transaction)]))

    def _management(self) -> bytes:
        """Return a question to the broker, or a command to its schedule."""
        draw = self._draw
        reply_to = ("reply-to", draw.choice(("/temp-queue/x", "/queue/plain.1", "/queue/ActiveMQ.Statistics.Broker")))
        if draw.randrange(2):
            asked = draw.choice(
                (
                    "Broker",
                    "Destination.plain.1",
                    *(("Destination.>",) if self._is_wild else ()),
                    "Subscription",
                    "plain.1",
                    "honest.kept",
                )
            )
            where = f"/{draw.choice(('queue', 'topic'))}/ActiveMQ.Statistics.{asked}"
            return self._frame("SEND", self._with_receipt([("destination", where), reply_to]))
        headers = [("destination", "/topic/ActiveMQ.Scheduler.Management"), reply_to]
        headers.append(
            (
                "AMQ_SCHEDULER_ACTION",
                draw.choice(
                    (
                        "BROWSE",
                        "BROWSE",
                        *(("REMOVE",) if self._jobs else ()),
                        "REMOVEALL",
                        *(("DANCE",) if self._is_wild else ()),
                    )
                ),
            )
        )
        if self._jobs:
            headers.append(("scheduledJobId", draw.choice(self._jobs)))
        if not draw.randrange(3):
            headers += [("ACTION_START_TIME", "0"), ("ACTION_END_TIME", draw.choice(("1", "253402300799000")))]
        return self._frame("SEND", self._with_receipt(headers))

    def _odd(self) -> bytes:
        draw = self._draw
        kind = draw.randrange(5)
        if kind == 0:
            asked = typed_stomp.some(draw, typed_stomp.SUBSCRIBE_NAMES, 4)
            asked.setdefault("id", "odd")
            return self._frame("SUBSCRIBE", [("destination", source(draw, True, self._kinds)), *asked.items()])
        if kind == 1:
            return self._frame(
                draw.choice(("ACK", "NACK")), list(typed_stomp.some(draw, typed_stomp.ACK_NAMES, 3).items())
            )
        if kind == 2:
            return draw.choice((b"JUMP\n\n\0", b"RECEIPT\n\n\0", b"SEND\nno colon\n\n\0", b"SEND\r\n\r\n\0", b"\0"))
        headers, body = typed_stomp.send(draw)
        if draw.randrange(2):
            headers["destination"] = target(draw, True, self._kinds)
        return self._frame("SEND", list(headers.items()), body)


def broken(draw: random.Random, octets: bytes) -> bytes:
    """Return the octets with some of them changed, or cut short."""
    changed = bytearray(octets[: draw.randrange(1, len(octets) + 1)] if draw.randrange(2) else octets)
    for _ in range(draw.randrange(4)):
        changed[draw.randrange(len(changed))] = draw.choice((0, 10, 13, 58, 92, 255, draw.randrange(256)))
    return bytes(changed)
