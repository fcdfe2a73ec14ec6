"""Every performative in every state: what is answered, with which condition, and what ends of it (AMQP 1.0 part 2).

A row says for each performative what comes back:

    "-"       nothing
    "open"    a performative of that name, without an error
    "close illegal-state"   one that carries that error, and ends what it ends
"""

from __future__ import annotations

from typing import Final

import pytest

from protocols.amqp.v1_0.wire.composite import Composite
from protocols.amqp.v1_0.wire.delivery_states import Accepted
from protocols.amqp.v1_0.wire.frames import AMQP_LAYER, HEARTBEAT_OCTETS, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from protocols.amqp.v1_0.wire.termini import Source, Target
from tests.support.amqp_gateway import AmqpGateway, AmqpPeer, text

LINK: Final = 0  # the handle that every state with a link has attached

PERFORMATIVES: Final[dict[str, Composite]] = {
    "open": Open("again"),
    "begin": Begin(None, 0, 100, 100),
    "attach": Attach("another", 7, True, source=Source("q"), target=Target()),
    "attach same handle": Attach("another", LINK, True, source=Source("q"), target=Target()),
    "flow": Flow(0, 100, 0, 100),
    "flow of link": Flow(0, 100, 0, 100, LINK, 0, 0),
    "transfer": Transfer(LINK, 0, b"t", 0),
    "disposition": Disposition(True, 0, None, True, Accepted()),
    "detach": Detach(LINK, True),
    "end": End(),
    "close": Close(),
}

ILLEGAL: Final = "close illegal-state"
UNATTACHED: Final = "end session:unattached-handle"
EARLY: Final = "open, close illegal-state"

# What each state answers to PERFORMATIVES, in their order.
TABLE: Final[dict[str, tuple[str, ...]]] = {
    "header expected": ("header",) * 11,  # sent instead of a header: what is spoken here, then the end
    "login expected": ("lost",) * 11,  # a frame of the other layer
    "open expected": ("open", *(EARLY,) * 9, EARLY),
    "opened": (ILLEGAL, "begin", *(ILLEGAL,) * 8, "close"),
    "session": (
        ILLEGAL,
        ILLEGAL,
        "attach",
        "attach",
        "-",
        UNATTACHED,
        UNATTACHED,
        "-",
        UNATTACHED,
        "end",
        "close",
    ),
    "producer": (
        ILLEGAL,
        ILLEGAL,
        "attach",
        "end session:handle-in-use",
        "-",
        "-",
        "disposition",
        "-",
        "detach",
        "end",
        "close",
    ),
    "consumer": (
        ILLEGAL,
        ILLEGAL,
        "attach",
        "end session:handle-in-use",
        "-",
        "-",
        "detach not-allowed",
        "-",
        "detach",
        "end",
        "close",
    ),
    # We have said detach because of an error; the peer has not, and its handle is taken until it has.
    "link ended": (ILLEGAL, ILLEGAL, "attach", "end session:handle-in-use", "-", "-", "-", "-", "-", "end", "close"),
    # We have said end because of an error: what comes until the peer's end was under way (2.5.5).
    "session ended": (ILLEGAL, ILLEGAL, "-", "-", "-", "-", "-", "-", "-", "-", "close"),
    # The peer has said end, too: nothing is on this channel any more.
    "session gone": (ILLEGAL, "begin", *(ILLEGAL,) * 8, "close"),
    # We have said close: everything but the peer's close is dropped (2.4.3).
    "closed": ("-",) * 11,
}


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
    if name == "producer":
        peer.attach_sender("q", LINK)
    elif name == "consumer":
        peer.attach_receiver("q", LINK)
    elif name == "link ended":
        peer.send(Attach("refused", LINK, True, source=Source("q"), target=Target(), unsettled=None))
        peer.send(Transfer(LINK, 0, b"t", 0), text("a consumer that sends"))
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


@pytest.mark.parametrize("state", TABLE)
@pytest.mark.parametrize("performative", PERFORMATIVES)
def test_answer(state: str, performative: str) -> None:
    peer = in_state(state)
    expected = TABLE[state][list(PERFORMATIVES).index(performative)]
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
    assert answer(peer.take()) == expected
    assert peer.is_closed == (state == "closed" or "close" in expected)


@pytest.mark.parametrize("state", [state for state in TABLE if state not in ("header expected", "login expected")])
def test_a_heartbeat_is_welcome_in_every_state(state: str) -> None:
    peer = in_state(state)
    peer.send_octets(HEARTBEAT_OCTETS)
    assert peer.take() == []


@pytest.mark.parametrize("state", ["producer", "consumer", "session", "link ended"])
@pytest.mark.parametrize("performative", PERFORMATIVES)
def test_what_ends_a_session_leaves_the_others_alone(state: str, performative: str) -> None:
    peer = in_state(state)
    expected = TABLE[state][list(PERFORMATIVES).index(performative)]
    if "close" in expected:
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
    "no delivery-id": (Transfer(LINK, None, b"t", 0), "detach invalid-field"),
    "no delivery-tag": (Transfer(LINK, 0, None, 0), "detach invalid-field"),
    "message-format of its own": (Transfer(LINK, 0, b"t", 1), "disposition"),
    "resumed": (Transfer(LINK, 0, b"t", 0, resume=True), "disposition"),
    "aborted": (Transfer(LINK, 0, b"t", 0, aborted=True), "-"),
    "aborted, and more": (Transfer(LINK, 0, b"t", 0, more=True, aborted=True), "-"),
    "settled with a message-format of its own": (Transfer(LINK, 0, b"t", 1, True), "detach not-implemented"),
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
        peer.transfer(text("the link goes on"), LINK)
        assert isinstance(peer.one(Disposition).state, Accepted)
