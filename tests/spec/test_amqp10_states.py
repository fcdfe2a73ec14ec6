"""Every performative in every state: what is answered, with which condition, and what ends of it (AMQP 1.0 part 2).

A row says for each performative what comes back:

    "-"       nothing
    "open"    a performative of that name, without an error
    "close illegal-state"   one that carries that error, and ends what it ends
"""

from __future__ import annotations

from typing import Final

import pytest

from protocols.amqp.v1_0.endpoints.states import (
    ATTACH_RCVD,
    ATTACHED,
    BEGIN_RCVD,
    CLOSE_SENT,
    CONNECTION,
    DETACHED,
    FAIL,
    HDR_EXCH,
    LEFT,
    LINK,
    LINK_DISCARDING,
    MAPPED,
    MECHANISM_DUE,
    OPENED,
    SESSION,
    SESSION_DISCARDING,
    START,
    UNMAPPED,
)
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.errors import SYMBOLS
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, HEARTBEAT_OCTETS, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.values import Symbol, UInt
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text

HANDLE: Final = 0  # the handle that every state with a link has attached

PERFORMATIVES: Final[dict[str, Composite]] = {
    "open": Open("again"),
    "begin": Begin(None, 0, 100, 100),
    "attach": Attach("another", 7, True, source=Source("q"), target=Target()),
    "attach same handle": Attach("another", HANDLE, True, source=Source("q"), target=Target()),
    "flow": Flow(0, 100, 0, 100),
    "flow of link": Flow(0, 100, 0, 100, HANDLE, 0, 0),
    "transfer": Transfer(HANDLE, 0, b"t", 0),
    "disposition": Disposition(True, 0, None, True, Accepted()),
    "detach": Detach(HANDLE, True),
    "end": End(),
    "close": Close(),
}

ILLEGAL: Final = "close illegal-state"
EARLY: Final = "open, close illegal-state"

# Where a peer is: the states of its connection, of the session on its channel and of the link on its handle.
STATES: Final[dict[str, tuple[int, int, int]]] = {
    "header expected": (START, UNMAPPED, DETACHED),
    "login expected": (MECHANISM_DUE, UNMAPPED, DETACHED),
    "open expected": (HDR_EXCH, UNMAPPED, DETACHED),
    "opened": (OPENED, UNMAPPED, DETACHED),
    "session": (OPENED, MAPPED, DETACHED),
    "session behind": (OPENED, BEGIN_RCVD, DETACHED),
    "producer": (OPENED, MAPPED, ATTACHED),
    "consumer": (OPENED, MAPPED, ATTACHED),
    "consumer behind": (OPENED, MAPPED, ATTACH_RCVD),
    "link ended": (OPENED, MAPPED, LINK_DISCARDING),
    "session ended": (OPENED, SESSION_DISCARDING, DETACHED),
    "session gone": (OPENED, UNMAPPED, DETACHED),
    "closed": (CLOSE_SENT, UNMAPPED, DETACHED),
}
# What a performative is answered by where nothing is wrong with it.
ANSWERS: Final = {
    "open": "open",
    "begin": "begin",
    "attach": "attach",
    "attach same handle": "attach",
    "flow": "-",
    "flow of link": "-",
    "transfer": "disposition",
    "disposition": "-",
    "detach": "detach",
    "end": "end",
    "close": "close",
}
# What has not left yet where something is behind an answer.
BEHIND: Final = {"session behind": "attach, end, begin", "consumer behind": "attach, attach"}
CODES: Final = frozenset(frame.CODE for frame in PERFORMATIVES.values())
OF_LINK: Final = ("attach", "attach same handle", "flow of link", "transfer", "detach")


def rows_of(state: str, performative: str) -> list[tuple[str, tuple[int, int]]]:
    """Return the rows that decide on a performative, in their order: of the connection, the session, the link."""
    connection, session, link = STATES[state]
    code = PERFORMATIVES[performative].CODE
    rows = [("connection", (connection, code))]
    if connection == OPENED and performative not in ("open", "close"):
        rows.append(("session", (session, code)))
    if len(rows) == 2 and session != SESSION_DISCARDING and performative in OF_LINK:
        rows.append(("link", (DETACHED if performative == "attach" else link, code)))
    return rows


TABLES: Final = {"connection": CONNECTION, "session": SESSION, "link": LINK}


def expected_answer(state: str, performative: str) -> str:
    """Return what the tables of the product say."""
    connection, session, link = STATES[state]
    if state == "header expected":
        return "header"  # sent instead of a header: what is spoken here, then the end
    if state == "login expected":
        return "lost"  # a frame of the other layer
    if connection == CLOSE_SENT:
        return "-"  # everything is dropped, the peer's close too, for ours is out (2.4.3)
    for name, row in rows_of(state, performative):
        if row in TABLES[name]:
            continue
        if name == "link":
            return f"end {symbol_of('handle-in-use' if performative.startswith('attach') else 'unattached-handle')}"
        return EARLY if connection == HDR_EXCH else ILLEGAL
    if performative in ("open", "close"):
        return ANSWERS[performative]
    if session == SESSION_DISCARDING:
        return "-"
    if link == LINK_DISCARDING and performative in OF_LINK and performative != "attach":
        return "-"
    if state.startswith("consumer") and performative == "transfer":
        return "detach not-allowed"
    return ANSWERS[performative]


def symbol_of(condition: str) -> str:
    return SYMBOLS[condition].removeprefix("amqp:")


def in_state(name: str) -> AmqpPeer:
    gateway = AmqpGateway()
    if name in ("header expected", "login expected", "open expected"):
        peer = gateway.open_amqp()
        if name != "header expected":
            peer.send_octets(protocol_header(SASL_LAYER if name == "login expected" else AMQP_LAYER))
        peer.take()
        return peer
    peer = gateway.connect_amqp()
    if name == "opened":
        return peer
    peer.begin()
    if name in BEHIND:  # the answer to a durable subscription waits for the disk, and nothing overtakes it
        gateway.syncs = False
        source = Source("topic://t", UInt(2), Symbol("never"), capabilities=[Symbol("topic")])
        peer.send(Attach("subscription", 9, True, source=source, target=Target()))
        if name == "session behind":
            peer.send(End())
            peer.send(Begin(None, 0, 100, 100))
        else:
            peer.send(Attach("late", HANDLE, True, source=Source("q"), target=Target()))
        assert peer.take() == []
    elif name == "producer":
        peer.attach_sender("q", HANDLE)
    elif name == "consumer":
        peer.attach_receiver("q", HANDLE)
    elif name == "link ended":
        peer.send(Attach("refused", HANDLE, True, source=Source("q"), target=Target(), unsettled=None))
        peer.send(Transfer(HANDLE, 0, b"t", 0), text("a consumer that sends"))
        peer.take()
    elif name in ("session ended", "session gone"):
        peer.send(Detach(99))
        peer.take()
        if name == "session gone":
            peer.send(End())
            peer.take()
    elif name == "closed":
        peer.send(Open("twice"))
        peer.take()
    return peer


def answer(frames: list[Composite]) -> str:
    said = []
    for frame in frames:
        name = frame.NAME.removeprefix("amqp:").removesuffix(":list")
        error = getattr(frame, "error", None)
        if name == "flow":  # goes along with an attach
            continue
        said.append(f"{name} {error.condition.removeprefix('amqp:')}" if error is not None else name)
    return ", ".join(said) or "-"


def states_of(peer: AmqpPeer) -> tuple[int, int, int]:
    """Return the states of a peer's connection, of the session on channel 0 and of the link on ``HANDLE``."""
    connection = peer.connection
    if connection.state == CLOSE_SENT:  # it only says what it owes, and has no sessions
        return connection.state, UNMAPPED, DETACHED
    session = connection.channels.mapped.get(0) or connection.channels.discarding.get(0)
    if session is None:
        return connection.state, UNMAPPED, DETACHED
    link = session.links.get(HANDLE) or session.discarding.get(HANDLE)
    return connection.state, session.state, DETACHED if link is None else link.state


def states_after(state: str, performative: str, answered: str) -> tuple[int, int, int]:
    """Return what the tables say that the states become, by a performative and by what was answered."""
    after = dict(zip(TABLES, STATES[state], strict=True))
    if answered.startswith("close") or answered == EARLY:
        return CONNECTION[after["connection"], FAIL], UNMAPPED, DETACHED
    for name, row in rows_of(state, performative):
        if row in TABLES[name] and not (name == "link" and performative == "attach"):
            after[name] = TABLES[name][row]
    if answered.startswith("end "):
        after.update(session=SESSION[after["session"], FAIL])
    elif answered.startswith("detach "):
        after.update(link=LINK[after["link"], FAIL])
    # What is answered at once leaves with this turn; what was behind an answer has left by now.
    session = SESSION.get((after["session"], LEFT), after["session"])
    link = LINK.get((after["link"], LEFT), after["link"])
    return after["connection"], session, link if session in (BEGIN_RCVD, MAPPED) else DETACHED


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("performative", PERFORMATIVES)
def test_answer(state: str, performative: str) -> None:
    peer = in_state(state)
    assert states_of(peer) == STATES[state]
    expected = expected_answer(state, performative)
    payload = text("a message") if performative == "transfer" else b""
    peer.send(PERFORMATIVES[performative], payload)
    if expected == "lost":
        assert peer.octets == b""
        assert peer.is_closed
        return
    if expected == "header":
        assert peer.octets == protocol_header(AMQP_LAYER)
        assert peer.is_closed
        return
    if state in BEHIND:
        assert peer.take() == [], "nothing overtakes an answer"
        peer.gateway.syncs = True
        peer.gateway.sync()
        answered = answer(peer.take())
        assert answered.startswith(BEHIND[state])
        answered = answered.removeprefix(BEHIND[state]).removeprefix(", ") or "-"
    else:
        answered = answer(peer.take())
    assert answered == expected
    assert states_of(peer) == states_after(state, performative, answered)
    assert peer.is_closed == (state == "closed" or "close" in expected)


def test_every_row_of_the_tables_is_driven() -> None:
    """Of open connections; the handshake has its own tests."""
    driven = {row for state in STATES for performative in PERFORMATIVES for row in rows_of(state, performative)}
    for name, table in TABLES.items():
        for state, event in table:
            if event in CODES and (name != "connection" or state == OPENED):
                assert (name, (state, event)) in driven, f"{name} {state} {event:#04x}"


@pytest.mark.parametrize("state", [state for state in STATES if state not in ("header expected", "login expected")])
def test_a_heartbeat_is_welcome_in_every_state(state: str) -> None:
    peer = in_state(state)
    peer.send_octets(HEARTBEAT_OCTETS)
    assert peer.take() == []


@pytest.mark.parametrize("state", ["producer", "consumer", "session", "link ended"])
@pytest.mark.parametrize("performative", PERFORMATIVES)
def test_what_ends_a_session_leaves_the_others_alone(state: str, performative: str) -> None:
    peer = in_state(state)
    if "close" in expected_answer(state, performative):
        return
    peer.begin(1)
    peer.attach_sender("other", 3, channel=1)
    peer.send(PERFORMATIVES[performative], text("a message") if performative == "transfer" else b"")
    peer.take()
    peer.transfer(text("goes on"), 3, channel=1)
    assert isinstance(peer.one(Disposition).state, Accepted)


CLOSES: Final = (
    ("handle above handle-max", Attach("high", 10_000, True, source=Source("q"), target=Target()), 0),
    ("channel above channel-max", Begin(None, 0, 1, 1), 256),
)


@pytest.mark.parametrize(("name", "frame", "channel"), CLOSES)
def test_numbers_out_of_range_are_framing_errors(name: str, frame: Composite, channel: int) -> None:
    """2.7.1 and 2.7.2: the connection is closed."""
    peer = in_state("session")
    peer.send(frame, channel=channel)
    assert answer(peer.take()) == "close connection:framing-error", name


# What a frame may lack or get wrong, in octets behind the channel: the connection cannot go on (2.8.15).
MALFORMED: Final = {
    "no performative": "00530045",
    "unknown descriptor": "00539945",
    "body is no list": "0053154041",
    "attach without a name": "005312c0030340524241",
    "attach whose role is a number": "005312c007 03a10161 5207 5200".replace(" ", ""),
    "flow without its windows": "005313c0020143",
    "transfer without a handle": "00531445",
    "disposition without first": "005315c0020141",
    "disposition with a state that is none": "005315c009044143404100530045",
    "detach without a handle": "00531645",
    "end with an error that is a string": "005317c0040 1a10161".replace(" ", ""),
    "octets behind a performative": "0053174541",
    "list longer than its frame": "005317c0ff01",
    "string that is not UTF-8": "005312c00401a102ff41",
}


@pytest.mark.parametrize("octets", MALFORMED.values(), ids=list(MALFORMED))
def test_what_cannot_be_read_closes_the_connection(octets: str) -> None:
    peer = in_state("producer")
    body = bytes.fromhex(octets)
    peer.send_octets((8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body)
    assert answer(peer.take()) == "close decode-error"
    assert peer.is_closed


# On a link that sends: what is wrong with one transfer, and what ends of it.
TRANSFERS: Final[dict[str, tuple[Transfer, str]]] = {
    "message-format of its own": (Transfer(HANDLE, 0, b"t", 1), "disposition"),
    "resumed": (Transfer(HANDLE, 0, b"t", 0, resume=True), "disposition"),
    "aborted": (Transfer(HANDLE, 0, b"t", 0, aborted=True), "-"),
    "aborted, and more": (Transfer(HANDLE, 0, b"t", 0, more=True, aborted=True), "-"),
    "settled with a message-format of its own": (Transfer(HANDLE, 0, b"t", 1, True), "detach not-implemented"),
}


@pytest.mark.parametrize("name", TRANSFERS)
def test_transfers_that_are_no_good(name: str) -> None:
    transfer, expected = TRANSFERS[name]
    peer = in_state("producer")
    peer.send(transfer, text("a message"))
    frames = peer.take()
    assert answer(frames) == expected
    if expected == "disposition":
        assert isinstance(frames[0], Disposition)
        assert frames[0].state is not None
        assert frames[0].state.NAME == "amqp:rejected:list"
    if not expected.startswith("detach"):
        peer.transfer(text("the link goes on"), HANDLE)
        assert isinstance(peer.one(Disposition).state, Accepted)
