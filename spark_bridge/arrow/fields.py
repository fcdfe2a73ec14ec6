"""Columns that have the value of one header: texts, numbers and times of JMS."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from protocols.broker_headers import USER
from protocols.message_lines import MESSAGE_ID_HEADER
from spark_bridge.arrow.arrays import timestamps, to_numpy, whole_numbers
from spark_bridge.arrow.schema import TIMESTAMP

TEXTS: Final = {
    "correlation_id": "correlation-id",
    "type": "type",
    "reply_to": "reply-to",
    "content_type": "content-type",
    "sender_message_id": MESSAGE_ID_HEADER,
    "user_id": USER,
    "group_id": "JMSXGroupID",
}
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
SENT_TIME: Final = "timestamp"
HEADERS: Final = (*TEXTS.values(), GROUP_SEQUENCE, SENT_TIME)

DIGITS: Final = 14  # of milliseconds up to the year 5138


def field_columns(named: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the columns; a number that is none is null.  named: a column of texts for each of HEADERS."""
    return {column: named[header] for column, header in TEXTS.items()} | {
        "group_sequence": whole_numbers(named[GROUP_SEQUENCE], DIGITS, is_signed=True),
        "sent_time": _times(whole_numbers(named[SENT_TIME], DIGITS)),
    }


def _times(sent_ms: pa.Array) -> pa.Array:
    if sent_ms.null_count == len(sent_ms):
        return pa.nulls(len(sent_ms), TIMESTAMP)
    is_number = to_numpy(sent_ms.is_valid().cast(pa.uint8())) > 0
    values = np.where(is_number, to_numpy(sent_ms), 0)
    return timestamps(values, values == 0)  # JMS: 0 if the sender has disabled its timestamps
