"""Tables of AMQP 1.0's rules: each row is a test under its section; and the peers with which rows begin.

Answers to a peer are written as in test_amqp10_states.py: ``close illegal-state`` is a close with that condition,
``attach, detach ...`` a refused link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composite import Composite
from protocols.amqp.v1_0.wire.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.frames import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.performatives import Attach, Disposition, Flow, Open
from protocols.amqp.v1_0.wire.sasl_frames import SaslMechanisms
from protocols.amqp.v1_0.wire.termini import Source, Target
from protocols.amqp.v1_0.wire.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.value_encoder import encode
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text


class Rules(dict[str, Callable[[], None]]):
    """Tests by their section and subject."""

    def rule(self, name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
        """Enter a test under its name."""

        def enter(test: Callable[[], None]) -> Callable[[], None]:
            assert name not in self
            self[name] = test
            return test

        return enter


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


def opening(**fields: Any) -> AmqpPeer:
    """Return a peer that has sent its open."""
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(AMQP_LAYER))
    peer.take()
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


def sasl() -> AmqpPeer:
    """Return a peer that has received the mechanisms."""
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(SASL_LAYER))
    _, mechanisms = peer.take()
    assert isinstance(mechanisms, SaslMechanisms)
    return peer


RELAY: Final = b"\x00\x53\x73" + encode([None, None, "$none"]) + text("m")
