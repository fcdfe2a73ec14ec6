"""The stream of Spark's data source with limits of its batches, which Spark 4.2 and newer can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_bridge.stream.micro_batches import LogStream, Place, place_of
from spark_bridge.stream.reader import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Ends a batch where the limits of its options say so."""

    def __init__(self, stream: LogStream) -> None:
        super().__init__(stream)
        self._until: Place | None = None

    def _check_limits(self) -> None:
        """Take them."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit that Spark gives back, unless the trigger wants all there is; ``LogStream`` knows them all."""
        if self._stream.max_bytes:
            return ReadMaxBytes(self._stream.max_bytes)
        return ReadMaxRows(self._stream.max_rows) if self._stream.max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end where the log ends now."""
        self._until = self._stream.last()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override]
        """Return where the batch ends that begins at ``start``."""
        last = self._until or self._stream.last()
        return asdict(self._stream.batch_end(place_of(start), last, not isinstance(limit, ReadAllAvailable)))

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the end of the log, for the progress of the query: what lies before it is the lag."""
        return asdict(self._stream.last())
