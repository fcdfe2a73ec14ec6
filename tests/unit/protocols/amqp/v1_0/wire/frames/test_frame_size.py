"""Frames that must fit into what the peer takes."""

from __future__ import annotations

import pytest

from protocols.amqp.v1_0.wire.composites.composite import Composite, Error
from protocols.amqp.v1_0.wire.composites.delivery_states import Rejected, TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Close, Detach, Disposition, End
from protocols.amqp.v1_0.wire.errors import FrameSizeTooSmall
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_size import fitted_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.values import Symbol

TEXT = "what was seen, and what is allowed: ä€😀 " * 200


def read(octets: bytes) -> Composite:
    decoder = Decoder(512)
    decoder.receive_data(protocol_header(AMQP_LAYER) + octets)
    decoder.next_frame()
    frame = decoder.next_frame()
    assert frame is not None
    return frame


@pytest.mark.parametrize("length", [*range(400, 520, 7), 1_000, len(TEXT)])
def test_the_text_of_an_error_is_cut_as_little_as_it_takes(length: int) -> None:
    error = Error("amqp:not-found", TEXT[:length], {Symbol("k"): "v"})
    rejected = Rejected(error)
    frames: list[Composite] = [Detach(1, True, error), End(error), Close(error)]
    frames += [Disposition(True, 1, None, True, rejected)]
    frames += [Disposition(True, 1, None, True, TransactionalState(b"t", rejected))]
    for frame in frames:
        octets = fitted_frame(0, frame, 512)
        assert len(octets) <= 512
        found = read(octets)
        state = found.state if isinstance(found, Disposition) else None
        if isinstance(state, TransactionalState):
            state = state.outcome
        seen = state.error if isinstance(state, Rejected) else getattr(found, "error", None)
        assert isinstance(seen, Error)
        assert seen.condition == "amqp:not-found"
        assert seen.info == {"k": "v"}
        assert seen.description is not None
        assert TEXT.startswith(seen.description)
        assert seen.description == TEXT[:length] or len(octets) > 470


def test_more_about_an_error_is_left_out_where_it_does_not_fit() -> None:
    error = Error("amqp:not-found", "gone", {Symbol("k"): "v" * 600})
    assert read(fitted_frame(0, End(error), 512)) == End(Error("amqp:not-found", "gone"))


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(FrameSizeTooSmall, match="amqp:attach:list takes .* octets; the peer's max-frame-size is 512"):
        fitted_frame(0, Attach("n" * 600, 0, True), 512)
