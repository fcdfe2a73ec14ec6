"""Origin, cause and history of dead letters, from the headers that the gateway added to them.

Headers of clients do not count.  The newest lines come first, so those of an earlier dead-lettering are hidden.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_bridge.arrow.arrays import strings, whole_numbers
from spark_bridge.arrow.contents import read_annotations
from spark_bridge.arrow.headers import parse
from spark_bridge.arrow.schema import TIMESTAMP
from spark_bridge.log.records import Block

TEXTS: Final = {"original_message_id": "originalMessageId", "failure": "dlqDeliveryFailureCause"}
TEXTS_OF_FAILURES: Final = {"last_consumer": "dlqConsumer"}
COUNTS: Final = {"failed_attempts": "originalDeliveryCount", "retry_count": "dlqRetryCount"}
TIMES: Final = {"first_failure": "dlqFirstFailureTime", "last_failure": "dlqLastFailureTime"}
DESTINATION: Final = "original-destination"
ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
QUEUE: Final = "_AMQ_ORIG_QUEUE"
NAMES: Final = (
    *TEXTS.values(),
    *TEXTS_OF_FAILURES.values(),
    *COUNTS.values(),
    *TIMES.values(),
    DESTINATION,
    ADDRESS,
    QUEUE,
)
# Each failure text begins with its cause, except that of an expiry, which is ActiveMQ's.
CAUSE: Final = "^(?P<cause>[a-z-]+):"
EXPIRED: Final = "expired"


def origin_columns(block: Block) -> dict[str, pa.Array]:
    """Return the columns that only dead letters have."""
    _, named = parse(read_annotations(block), NAMES)
    failure = named[TEXTS["failure"]]
    told = pc.struct_field(pc.extract_regex(failure, CAUSE), [0])
    causes = pc.if_else(pc.and_(failure.is_valid(), told.is_null()), strings([EXPIRED])[0], told)
    has_failed = pc.not_equal(causes, EXPIRED)
    subscriber = named[QUEUE]
    columns = {
        "original_destination": pc.replace_substring_regex(named[DESTINATION], r"^/([a-z-]+)/", r"\1://"),
        "original_subscription": _where(pc.not_equal(subscriber, named[ADDRESS]), subscriber),
        "cause": causes,
    }
    columns |= {column: named[header] for column, header in TEXTS.items()}
    columns |= {column: _where(has_failed, named[header]) for column, header in TEXTS_OF_FAILURES.items()}
    columns |= {column: whole_numbers(named[header], 9).cast(pa.int32()) for column, header in COUNTS.items()}
    for column, header in TIMES.items():
        times = _where(has_failed, whole_numbers(named[header], 15))
        columns[column] = pc.multiply(times, 1000).cast(TIMESTAMP)
    return columns


def _where(is_wanted: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(is_wanted, values, pa.nulls(len(values), values.type))
