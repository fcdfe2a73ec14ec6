"""No turn is longer than its budget, however many destinations, consumers, links, selectors or groups there are."""

from __future__ import annotations

import pytest

import tests.support.turns.amqp_turns
import tests.support.turns.consumer_turns
import tests.support.turns.conversion_turns
import tests.support.turns.crowd_turns
import tests.support.turns.dispatch_turns
import tests.support.turns.fate_turns
import tests.support.turns.input_turns
import tests.support.turns.message_turns
import tests.support.turns.openwire_turns
import tests.support.turns.reader_turns
import tests.support.turns.settlement_turns
import tests.support.turns.spill_turns
import tests.support.turns.store_turns
import tests.support.turns.timer_turns
import tests.support.turns.wildcard_turns  # noqa: F401
from tests.support.turns.turn_lines import IS_COUNTING, TurnLines
from tests.support.turns.turn_scenarios import SCENARIOS

pytestmark = pytest.mark.interpreted

COUNT = 2_000
TURN_LINES_MAX = 100_000  # some 5 ms
# What one input asks for of so many messages at once takes its time for each, and no more lines than that.
OF_MESSAGES = {
    "a replay of a queue is read": 110,
    "one cumulative acknowledgement": 20,
    "a transaction of sends commits": 60,
    "pipelined: transactions of many sends commit": 65,  # one of them
    "transactions of many sends of many clients commit": 170,  # three of them
    "a transaction of acknowledgements commits": 15,
    "a transaction of acknowledgements is aborted": 30,
    "OpenWire: a transaction with a range is rolled back": 60,
    "OpenWire: a session ends with many consumers": 60,
    "OpenWire: a connection's RemoveInfo with many consumers": 60,
    "OpenWire pipelined: messages are delivered and not settled": 60,
    "one AMQP disposition accepts many": 85,
    "one AMQP disposition rejects many": 70,
    "pipelined: AMQP transactions that accept many deliveries and are rolled back": 85,
    "pipelined: AMQP transactions that accept many deliveries and end with their control link": 85,
    "pipelined: AMQP dispositions of deliveries that a transaction has": 75,
}
# What C code does with all of them leaves few lines.
FEWER = {
    "a segment of the log begins: many runs of settled entries and failed attempts": 10_000,
    "messages are settled beside many found ahead": 5_000,
}
# Of these frames 32 are counted together, and each connection may send so many before any are.  What a message to many
# subscriptions costs at its hand-over is not counted.
COUNTED_TOGETHER = {
    "pipelined: SEND with receipts": 2 * TURN_LINES_MAX,
    "pipelined: SEND to a topic with many subscriptions": 10 * TURN_LINES_MAX,  # 18 messages
    "pipelined: SEND to a topic with many durable subscriptions without consumers": 2 * TURN_LINES_MAX,
    "a transaction of sends to a topic with many plain subscriptions commits": 5 * TURN_LINES_MAX,  # 11 messages
    "a transaction of sends to a topic with many durable subscriptions commits": 3 * TURN_LINES_MAX,  # 8 messages
    "pipelined: transactions that acknowledge many messages and are aborted": 2 * TURN_LINES_MAX,  # one of them
    "pipelined: transfers": 2 * TURN_LINES_MAX,
    "conversion: AMQP lists go to OpenWire": 2 * TURN_LINES_MAX,  # one of them, as in the next four
    "conversion: OpenWire maps that are broken at their end go to STOMP": 2 * TURN_LINES_MAX,
    "conversion: OpenWire maps that are broken at their end go to AMQP": 2 * TURN_LINES_MAX,
    "conversion: STOMP maps in JSON go to AMQP": 2 * TURN_LINES_MAX,
    "conversion: STOMP maps in JSON go to OpenWire": 2 * TURN_LINES_MAX,
    "OpenWire pipelined: messages": 2 * TURN_LINES_MAX,
    "OpenWire pipelined: messages in version 9": 2 * TURN_LINES_MAX,
    "OpenWire pipelined: messages to many queues at once": 3 * TURN_LINES_MAX,
    "OpenWire pipelined: messages with a delay and many properties": 4 * TURN_LINES_MAX,  # 10 messages
    "OpenWire pipelined: producers of many new queues at once": 4 * TURN_LINES_MAX,  # 1,000 queues
    "OpenWire pipelined: temporary queues come and go, with requests": 3 * TURN_LINES_MAX,
    "OpenWire pipelined: ranges in transactions that are rolled back": 2 * TURN_LINES_MAX,
    "OpenWire pipelined: ranges in branches that are rolled back": 2 * TURN_LINES_MAX,
    "pipelined: dispositions of ranges beside many unsettled deliveries": 2 * TURN_LINES_MAX,
    "pipelined: AMQP dispositions of short ranges annotate many deliveries": 3
    * TURN_LINES_MAX,  # 10 clients, a range of each
}

# Their input takes a share of each turn, however much there is: from a quarter of it the longest turn is the same.
# All turns together have several times the lines of one, so work that is not divided breaks the bound all the same.
DIVIDED = frozenset(
    {
        "AMQP messages go to a STOMP connection",
        "AMQP values of many items go to a STOMP connection",
        "OpenWire pipelined: consumer controls",
        "OpenWire pipelined: consumers of many queues at once",
        "OpenWire pipelined: consumers of queues of their own",
        "OpenWire pipelined: consumers with a selector come and go",
        "OpenWire pipelined: messages in version 9",
        "OpenWire pipelined: messages to many queues at once",
        "OpenWire pipelined: messages to queues of their own",
        "OpenWire pipelined: messages with a delay and many properties",
        "OpenWire pipelined: producers of many new queues at once",
        "OpenWire pipelined: pulls of many consumers",
        "OpenWire pipelined: refused commands",
        "OpenWire pipelined: temporary queues come and go, with requests",
        "STOMP JSON of many items go to an AMQP link",
        "STOMP maps of many items go to a STOMP connection in another form",
        "STOMP maps of many items go to an AMQP link",
        "STOMP messages go to an AMQP link",
        "STOMP messages of many headers go to an AMQP link",
        "a browser looks for something in the bodies of many messages",
        "a queue of messages in memory is purged",
        "a reader of a non-destructive queue looks for something in the bodies of many messages",
        "a replay looks for something in the bodies of many messages",
        "messages come to many readers of a non-destructive queue that look into bodies",
        "messages come to many replays that look into bodies",
        "pipelined: AMQP dispositions of short ranges annotate many deliveries",
        "pipelined: BEGIN and ABORT",
        "pipelined: SEND to many queues at once",
        "pipelined: SEND to queues of their own",
        "pipelined: SUBSCRIBE and UNSUBSCRIBE",
        "pipelined: SUBSCRIBE with a selector, to queues of their own",
        "pipelined: attach and detach",
        "pipelined: attach to queues of their own",
        "pipelined: begin and end",
        "pipelined: declare and discharge",
        "selectors that look into bodies look for their messages on disk",
    }
)
DIVIDED_COUNT = COUNT // 4


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_longest_turn_has_a_bound(name: str) -> None:
    count = DIVIDED_COUNT if name in DIVIDED else COUNT
    run = SCENARIOS[name](count)
    with TurnLines() as lines:
        run()
    assert lines.longest > 0 or not IS_COUNTING
    bound = FEWER.get(name) or COUNTED_TOGETHER.get(name, TURN_LINES_MAX)
    allowed = OF_MESSAGES[name] * count if name in OF_MESSAGES else bound
    assert lines.longest <= allowed or not IS_COUNTING, lines.describe()
    assert name not in DIVIDED or lines.all_turns > 3 * allowed or not IS_COUNTING


def test_a_loop_over_everything_is_seen() -> None:
    """The law can fail: what grows with its messages is counted so."""
    few = _lines_of("one cumulative acknowledgement", 100)
    many = _lines_of("one cumulative acknowledgement", 1_000)
    assert many > 8 * few or not IS_COUNTING


def _lines_of(name: str, count: int) -> int:
    run = SCENARIOS[name](count)
    with TurnLines() as lines:
        run()
    return lines.longest
