"""Counters of the gateway itself, besides the engine's statistics; the metrics read them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.histogram import Histogram


@dataclass(slots=True, eq=False)
class GatewayCounters:
    """Since the start.

    dropped_frames: unconfirmed frames that waited at a gate when their connection was lost.
    stalled: connections ended because the peer read no output.  refused: connections over a limit.
    failed_logins: wrong passwords, and unknown users.  refused_logins: attempts unchecked, because too many waited.
    left_out_lines: lines missing in the log because an address or an operator had caused too many.
    failed_key_readings: of the issuer of tokens.
    spans: given to the exporter of traces.  dropped_spans: left out, because there were too many.
    failed_spans: the collector did not take them.  trace_faults: calls of the tracer that a defect of ours has ended.
    sync_times: of the commit log's syncs, None where they are not measured.
    session_faults: connections ended by a defect of ours.  conversion_faults: messages sent unconverted because of one.
    """

    dropped_frames: int = 0
    stalled: int = 0
    refused: int = 0
    failed_logins: int = 0
    refused_logins: int = 0
    left_out_lines: int = 0
    failed_key_readings: int = 0
    spans: int = 0
    dropped_spans: int = 0
    failed_spans: int = 0
    trace_faults: int = 0
    session_faults: int = 0
    conversion_faults: int = 0
    sync_times: Histogram | None = None
