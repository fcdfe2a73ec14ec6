"""Outcomes of a consumer, and their effect on the delivery.

    accepted                                 gone
    rejected                                 dead-lettered, with the error's text
    released                                 back to its place, not counted
    modified                                 likewise
    modified, delivery-failed                counted; waits as the redelivery policy says, or dead-lettered
    modified, undeliverable-here             likewise, and not to this consumer again; delivery-failed counts as above
    none of these, settled                   the source's default-outcome; released where there is none

Sources: AMQP 1.0 part 3, 3.4; semantics as of the other protocols (docs/reference/amqp.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from engine.values.delivery import Delivery, Refusal
from engine.values.outcomes import CAUSE_REJECTED
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Modified, Rejected, Released, State
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Value

ANNOTATIONS_BYTES_MAX: Final = 64 * 1024  # octets of annotations that consumers may add to one message

RELEASED: Final = Refusal("requeue")
FAILED: Final = Refusal("redeliver")
RELEASED_TO_OTHERS: Final = Refusal("requeue", is_excluding=True)
FAILED_TO_OTHERS: Final = Refusal("redeliver", is_excluding=True)


def is_terminal(state: State | None) -> bool:
    return isinstance(state, (Accepted, Rejected, Released, Modified))


def refusal_of(outcome: State | None, delivery: Delivery) -> Refusal | None:
    """Return the refusal that an outcome of ``delivery`` asks for, None for accepted."""
    if isinstance(outcome, Accepted):
        return None
    if isinstance(outcome, Rejected):
        error = outcome.error
        if error is None:
            return Refusal("dead-letter", None, CAUSE_REJECTED)
        return Refusal("dead-letter", None, CAUSE_REJECTED, f"{error.condition}: {error.description or ''}")
    if isinstance(outcome, Modified):
        refusal = FAILED if outcome.delivery_failed else RELEASED
        if outcome.undeliverable_here:
            refusal = FAILED_TO_OTHERS if outcome.delivery_failed else RELEASED_TO_OTHERS
        if outcome.message_annotations:
            return replace(refusal, annotations=_merged(added_annotations(delivery), outcome.message_annotations))
        return refusal
    return RELEASED


def added_annotations(delivery: Delivery) -> dict[Value, Value]:
    """Return the message-annotations that consumers have added to ``delivery``."""
    history = delivery.history
    if history is None or not history.annotations:
        return {}
    added, _ = decode(history.annotations, 0)
    assert isinstance(added, dict), "annotations are kept as a map"
    return added


def _merged(added: dict[Value, Value], annotations: dict[Value, Value]) -> bytes:
    """Return all annotations, newer values replacing older ones; b"" if they exceed the limit."""
    octets = encode({**added, **annotations})
    return octets if len(octets) <= ANNOTATIONS_BYTES_MAX else b""
