"""Tables of AMQP 1.0's rules: each row is a test under its section; and the peers with which rows begin.

Answers to a peer are written as in test_amqp10_states.py: ``close illegal-state`` is a close with that condition,
``attach, detach ...`` a refused link.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Disposition, Flow, Open, Transfer
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslMechanisms
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, ULong
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text

MESSAGE: Final = text("m")
FIRST: Final = (Transfer(0, 0, b"t", 0, more=True), MESSAGE[:4])
REST: Final = MESSAGE[4:]
ACCEPTED: Final = Accepted()

# What a peer does, or a check: a frame, a frame with its payload, octets, a function; or the answer that it then gets.
Step = Composite | tuple[Composite, bytes] | bytes | Callable[[AmqpPeer], object] | str
# A function that makes the peer, and its steps.
Exchange = tuple[Callable[[], AmqpPeer] | Step, ...]


class Rules(dict[str, Callable[[], None]]):
    """Tests by their section and subject."""

    def exchanges(self, rows: dict[str, list[Exchange]]) -> None:
        """Enter rules that are exchanges with peers, each with a peer of its own."""
        for name, exchanges in rows.items():
            self.rule(name)(partial(_run, exchanges))

    def rule(self, name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
        """Enter a test under its name."""

        def enter(test: Callable[[], None]) -> Callable[[], None]:
            assert name not in self
            self[name] = test
            return test

        return enter


def _run(exchanges: list[Exchange]) -> None:
    for make, *steps in exchanges:
        assert callable(make)
        peer: AmqpPeer = make()  # type: ignore[call-arg, assignment]
        for step in steps:
            if isinstance(step, str):
                assert answer(peer) == step, steps
            elif isinstance(step, bytes):
                peer.send_octets(step)
            elif isinstance(step, Composite):
                peer.send(step)
            elif isinstance(step, tuple):
                peer.send(*step)
            else:
                step(peer)  # type: ignore[call-arg]


def sent(payload: bytes = MESSAGE, handle: int = 0, **fields: Any) -> Step:
    return lambda peer: peer.transfer(payload, handle, **fields)


def published(*bodies: str) -> Step:
    return lambda peer: peer.publish(*bodies)


def consuming(**fields: Any) -> Step:
    """Attach a consumer on handle 1."""
    return lambda peer: peer.attach_receiver("q", 1, **fields)


def asked(composite: Composite, **fields: Any) -> Step:
    """A request to the coordinator."""
    return sent(request(composite), 9, **fields)


def disposed(first: int, state: Any = ACCEPTED, **fields: Any) -> Step:
    return lambda peer: peer.dispose(first, state, **fields)


def depth(count: int, name: str = "q") -> Step:
    def check(peer: AmqpPeer) -> None:
        assert peer.gateway.stats(name).depth == count

    return check


def in_flight(count: int) -> Step:
    def check(peer: AmqpPeer) -> None:
        assert peer.gateway.stats("q").in_flight == count

    return check


def is_closed(peer: AmqpPeer) -> None:
    assert peer.is_closed


def answer(peer: AmqpPeer) -> str:
    """Return the received frames without flows."""
    said = []
    for frame in peer.take():
        name = frame.NAME.removeprefix("amqp:").removesuffix(":list")
        error = getattr(frame, "error", None)
        if isinstance(frame, Disposition):
            state = getattr(frame.state, "outcome", None) or frame.state
            error = getattr(state, "error", None)
            name = "none" if state is None else state.NAME.removeprefix("amqp:").removesuffix(":list")
            name = f"{name}{'' if frame.settled else ' unsettled'}"
        if not isinstance(frame, Flow):
            said.append(f"{name} {error.condition.removeprefix('amqp:')}" if error is not None else name)
    return ", ".join(said) or "-"


def connected(**fields: Any) -> AmqpPeer:
    return AmqpGateway().connect_amqp(**fields)


def unopened() -> AmqpPeer:
    """Return a peer that has exchanged headers."""
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.take()
    return peer


def opening(**fields: Any) -> AmqpPeer:
    """Return a peer that has sent its open."""
    peer = unopened()
    peer.send(Open("me", **fields))
    return peer


def session(**settings: Any) -> AmqpPeer:
    return AmqpGateway(amqp=AmqpSettings(**settings)).amqp_session()


def sender(**fields: Any) -> AmqpPeer:
    """Return a peer with a producer on handle 0."""
    peer = session()
    peer.attach_sender("q", 0, **fields)
    return peer


def receiver(*bodies: str, **fields: Any) -> AmqpPeer:
    """Return a peer with a consumer on handle 1, which has received ``bodies``."""
    peer = sender()
    peer.publish(*bodies)
    peer.attach_receiver("q", 1, credit=len(bodies), **fields)
    peer.take()
    return peer


def attaching(source: Source | None = None, **fields: Any) -> str:
    """Return the answer to a consumer's attach."""
    peer = session()
    peer.send(Attach("link", 0, True, source=source or Source("q"), target=Target(), **fields))
    return answer(peer)


def attaching_to(target: Target | Coordinator | None, **fields: Any) -> str:
    """Return the answer to a producer's attach."""
    peer = session()
    fields = {"initial_delivery_count": 0, **fields}
    peer.send(Attach("link", 0, False, source=Source(), target=target, **fields))
    return answer(peer)


def raw(body: str, *, frame_type: int = 0, channel: int = 0) -> bytes:
    octets = bytes.fromhex(body)
    return (8 + len(octets)).to_bytes(4, "big") + bytes((2, frame_type)) + channel.to_bytes(2, "big") + octets


def framed(code: int, *fields: Any) -> bytes:
    """Return the frame of a performative with fields of any types."""
    octets = b"\x00\x53" + bytes((code,)) + encode(list(fields))
    return raw(octets.hex())


def typed(code: int, *fields: Any) -> Described:
    """Return a composite with fields of any types."""
    return Described(ULong(code), list(fields))


def coordinator(**fields: Any) -> AmqpPeer:
    """Return a peer with a coordinator on handle 9."""
    peer = session()
    peer.send(
        Attach(
            "txn", 9, False, source=Source(**fields), target=Coordinator(), initial_delivery_count=0, snd_settle_mode=2
        )
    )
    attach, _ = peer.take()
    assert isinstance(attach, Attach)
    return peer


def request(composite: Composite) -> bytes:
    return b"\x00\x53\x77" + encode_composite(composite)


def small_frames() -> AmqpPeer:
    """Return a peer that takes frames of 512 octets, which ``AmqpPeer`` then checks."""
    peer = AmqpGateway().connect_amqp(max_frame_size=512)
    peer.begin()
    peer.frame_most = 512
    return peer


def sasl() -> AmqpPeer:
    """Return a peer that has received the mechanisms."""
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(SASL_LAYER))
    _, mechanisms = peer.take()
    assert isinstance(mechanisms, SaslMechanisms)
    return peer


RELAY: Final = b"\x00\x53\x73" + encode([None, None, "$none"]) + MESSAGE
