"""Octets of any kind to an OpenWire connection: it goes on or ends, and nobody else notices."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.protocols.openwire_gateway import OpenWireGateway, queue
from tests.support.protocols.openwire_vectors import VECTORS

FRAMES = st.sampled_from([bytes.fromhex(one["hex"]) for one in VECTORS if one["group"] in ("frame", "captured")])


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """Return a frame with some octets changed, or cut off."""
    octets = bytearray(draw(FRAMES))
    for _ in range(draw(st.integers(0, 3))):
        octets[draw(st.integers(0, len(octets) - 1))] = draw(st.integers(0, 255))
    return bytes(octets[: draw(st.integers(1, len(octets)))] if draw(st.booleans()) else octets)


@settings(max_examples=60)
@given(st.lists(changed() | FRAMES | st.binary(max_size=30), max_size=6), st.booleans(), st.integers(1, 500))
def test_nobody_else_notices(pieces: list[bytes], is_connected: bool, cut_size: int) -> None:
    gateway = OpenWireGateway()
    witness = gateway.openwire_consumer(queue("witness"))
    hostile = gateway.connect_openwire(connection_id="ID:app1-40001-1700000000000-1:1") if is_connected else None
    hostile = hostile or gateway.open_openwire()
    octets = b"".join(pieces)
    for start in range(0, len(octets), cut_size):
        hostile.send_octets(octets[start : start + cut_size])
    gateway.advance(100)
    hostile.vanish()
    gateway.connect_openwire().publish(queue("witness"), "here")
    assert witness.texts() == ["here"]
    assert gateway.temporary_count() == 0  # its temporary destinations have gone with it
