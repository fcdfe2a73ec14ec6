"""An error as an ERROR frame."""

from __future__ import annotations

from engine.values.errors import PenstockError
from protocols.errors import UnsupportedVersion
from protocols.stomp.codec import frames
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import Frame
from protocols.stomp.codec.versions import VERSIONS
from protocols.stomp.errors import message_for


def error_frame(error: PenstockError, frame: Frame | None, version: int) -> bytes:
    """Return the octets of ERROR; ``frame`` is the peer's frame that failed, None if none did."""
    headers = [("message", message_for(error)), ("condition", error.condition), ("content-type", "text/plain")]
    if isinstance(error, UnsupportedVersion):
        headers.append(("version", ",".join(VERSIONS)))
    body = str(error).encode()
    headers.append(("content-length", str(len(body))))
    octets = encode(frames.ERROR, headers, body, version)
    if frame is not None and frame.receipt is not None:
        # The receipt is kept as it was on the wire, so it is escaped already.
        octets = octets.replace(b"\n", b"\nreceipt-id:" + frame.receipt + b"\n", 1)
    return octets
