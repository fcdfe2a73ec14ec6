"""Frames within the peer's max-frame-size (transport 2.7.1).

Only a transfer can be cut into several frames.  An error loses its other fields and the end of its text.  A frame that
still does not fit cannot be sent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from protocols.amqp.v1_0.wire.composites.composite import Composite, Error
from protocols.amqp.v1_0.wire.composites.delivery_states import Rejected, TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import Close, Detach, Disposition, End
from protocols.amqp.v1_0.wire.errors import FrameSizeTooSmall
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame

LENGTHS_BYTES: Final = 32  # octets that a text adds to its own length and to those of the lists around it


def fitted_frame(channel: int, frame: Composite, max_bytes: int) -> bytes:
    """Return ``frame`` in at most ``max_bytes`` octets.  Raises: FrameSizeTooSmall."""
    octets = encode_frame(channel, frame)
    if len(octets) <= max_bytes:
        return octets
    error = _error_of(frame)
    if error is not None:
        for info in (error.info, None):
            bare = encode_frame(channel, _with_error(frame, Error(error.condition, None, info)))
            room = max_bytes - len(bare) - LENGTHS_BYTES
            text = (error.description or "").encode()[: max(0, room)].decode(errors="ignore")
            octets = encode_frame(channel, _with_error(frame, Error(error.condition, text, info)))
            if len(octets) <= max_bytes:
                return octets
    raise FrameSizeTooSmall(f"{frame.NAME} takes {len(octets)} octets; the peer's max-frame-size is {max_bytes}")


def _error_of(frame: Composite) -> Error | None:
    if isinstance(frame, Detach | End | Close):
        return frame.error
    if isinstance(frame, Disposition):
        state = frame.state.outcome if isinstance(frame.state, TransactionalState) else frame.state
        return state.error if isinstance(state, Rejected) else None
    return None


def _with_error(frame: Composite, error: Error) -> Composite:
    if isinstance(frame, Disposition):
        rejected = Rejected(error)
        if isinstance(frame.state, TransactionalState):
            return replace(frame, state=TransactionalState(frame.state.txn_id, rejected))
        return replace(frame, state=rejected)
    assert isinstance(frame, Detach | End | Close), "nothing else has an error"
    return replace(frame, error=error)
