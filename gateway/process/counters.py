"""Counters of the gateway itself, besides the engine's statistics; the metrics read them."""

from __future__ import annotations


class GatewayCounters:
    """Since the start.

    dropped_frames: unconfirmed frames that waited at a gate when their connection was lost.
    stalled: connections ended because the peer read no output.  refused: connections over a limit.
    failed_logins: wrong passwords, and unknown users.  refused_logins: attempts unchecked, because too many waited.
    left_out_lines: lines missing in the log because an address had caused too many.
    session_faults: connections ended by a defect of ours.  conversion_faults: messages sent unconverted because of one.
    """

    __slots__ = (
        "dropped_frames",
        "stalled",
        "refused",
        "failed_logins",
        "refused_logins",
        "left_out_lines",
        "session_faults",
        "conversion_faults",
    )

    def __init__(self) -> None:
        self.dropped_frames = 0
        self.stalled = 0
        self.refused = 0
        self.failed_logins = 0
        self.refused_logins = 0
        self.left_out_lines = 0
        self.session_faults = 0
        self.conversion_faults = 0
