"""What AMQP 1.0 says must be, must not be or is an error: part 5, security.

Taken although the specification says otherwise: a SASL frame above 512 octets (tokens).
"""

from __future__ import annotations

from typing import Final

import pytest

from protocols.amqp.v1_0.wire.composites.performatives import Open
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.protocols.amqp_rules import Rules, raw, sasl

RULES: Final = Rules()
rule = RULES.rule


@rule("5.3.1 an empty frame inside SASL")
def _() -> None:
    peer = sasl()
    peer.send_octets(b"\x00\x00\x00\x08\x02\x01\x00\x00")
    assert peer.octets == b""
    assert peer.is_closed


@rule("5.3.1 a frame of the other layer inside SASL")
def _() -> None:
    peer = sasl()
    peer.send_octets(encode_frame(0, Open("me")))
    assert peer.is_closed


@rule("5.3.1 octets 6 and 7 of a SASL frame, and its extended header, are passed over")
def _() -> None:
    peer = sasl()
    frame = encode_sasl_frame(SaslInit("ANONYMOUS"))
    peer.send_octets((len(frame) + 4).to_bytes(4, "big") + b"\x03\x01\xff\xff" + b"\x00" * 4 + frame[8:])
    assert peer.one(SaslOutcome).code == 0


@rule("5.3.2 a response without an init, a second init, a frame of the server")
def _() -> None:
    for frames in (
        [SaslResponse(b"")],
        [SaslInit("PLAIN"), SaslInit("PLAIN")],
        [SaslOutcome(0)],
        [SaslMechanisms(["PLAIN"])],
    ):
        peer = sasl()
        for frame in frames:
            peer.send_octets(encode_sasl_frame(frame))
        assert peer.is_closed, frames


@rule("5.3.3 a mechanism that was not offered")
def _() -> None:
    peer = sasl()
    peer.send_octets(encode_sasl_frame(SaslInit("GSSAPI")))
    assert peer.one(SaslOutcome).code == 1
    assert peer.is_closed


@rule("5.3.2 after the outcome the AMQP header comes, and nothing else")
def _() -> None:
    peer = sasl()
    peer.send_octets(encode_sasl_frame(SaslInit("ANONYMOUS")))
    peer.take()
    peer.send_octets(encode_frame(0, Open("me")))
    assert peer.is_closed


@rule("5.2 the layer of TLS is answered with one that is spoken here, and closed")
def _() -> None:
    peer = AmqpGateway().open_amqp()
    peer.send_octets(b"AMQP\x02\x01\x00\x00")
    assert (peer.octets, peer.is_closed) == (protocol_header(AMQP_LAYER), True)


@rule("5.3.1 a SASL frame holds one type, and that one of its own")
def _() -> None:
    for body in (
        encode_sasl_frame(SaslInit("ANONYMOUS"))[8:] * 2,
        bytes.fromhex("0053104 5".replace(" ", "")),
        b"\x40",
    ):
        peer = sasl()
        peer.send_octets((8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body)
        assert (peer.octets, peer.is_closed) == (b"", True), body


@rule("5.3.1 an empty frame of AMQP inside SASL")
def _() -> None:
    peer = sasl()
    peer.send_octets(b"\x00\x00\x00\x08\x02\x00\x00\x00")
    assert (peer.octets, peer.is_closed) == (b"", True)


@rule("5.3.2 the server announces its mechanisms at once, in a frame of up to 512 octets")
def _() -> None:
    peer = AmqpGateway().open_amqp()
    peer.send_octets(protocol_header(SASL_LAYER))
    header, frame = peer.octets[:8], peer.octets[8:]
    assert header == protocol_header(SASL_LAYER)
    assert int.from_bytes(frame[:4], "big") == len(frame) <= 512
    assert frame[4:8] == b"\x02\x01\x00\x00"


@rule("5.3.2 behind the outcome a header that is none of AMQP's own")
def _() -> None:
    for header in (b"AMQP\x00\x01\x01\x00", protocol_header(SASL_LAYER)):
        peer = sasl()
        peer.send_octets(encode_sasl_frame(SaslInit("ANONYMOUS")))
        peer.take()
        peer.send_octets(header)
        assert (peer.octets, peer.is_closed) == (protocol_header(AMQP_LAYER), True)


@rule("5.3.3 an outcome that is none of success has no additional-data")
def _() -> None:
    peer = sasl()
    peer.send_octets(encode_sasl_frame(SaslInit("GSSAPI", b"token")))
    outcome = peer.one(SaslOutcome)
    assert (outcome.code, outcome.additional_data) == (1, None)


@rule("5.3.3 a mechanism is named in an init")
def _() -> None:
    peer = sasl()
    peer.send_octets(raw("00534145", frame_type=1))
    assert (peer.octets, peer.is_closed) == (b"", True)


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    RULES[name]()
