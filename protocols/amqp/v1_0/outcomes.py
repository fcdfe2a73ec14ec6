"""Outcomes of a consumer -> what becomes of the delivery.

    accepted                                 gone
    rejected                                 dead-lettered, with the error's text
    released                                 back to its place, not counted
    modified                                 likewise
    modified, delivery-failed                counted; waits as the redelivery policy says, or dead-lettered
    modified, undeliverable-here             dead-lettered: no other consumer of a JMS application would fare better
    none of these, settled                   the source's default-outcome; released where there is none

Sources: AMQP 1.0 part 3, 3.4; semantics as of the other protocols (docs/amqp.md).
"""

from __future__ import annotations

from typing import Final

from engine.ports import CAUSE_REJECTED
from engine.refusal import Refusal
from protocols.amqp.v1_0.states import Accepted, Modified, Rejected, Released, State

RELEASED: Final = Refusal("requeue")
FAILED: Final = Refusal("redeliver")
UNDELIVERABLE: Final = Refusal("dead-letter", None, CAUSE_REJECTED, "undeliverable-here")


def is_terminal(state: State | None) -> bool:
    return isinstance(state, (Accepted, Rejected, Released, Modified))


def refusal_of(outcome: State | None) -> Refusal | None:
    """Return what an outcome asks for, None for accepted."""
    if isinstance(outcome, Accepted):
        return None
    if isinstance(outcome, Rejected):
        error = outcome.error
        if error is None:
            return Refusal("dead-letter", None, CAUSE_REJECTED)
        return Refusal("dead-letter", None, CAUSE_REJECTED, f"{error.condition}: {error.description or ''}")
    if isinstance(outcome, Modified):
        if outcome.undeliverable_here:
            return UNDELIVERABLE
        if outcome.delivery_failed:
            return FAILED
    return RELEASED
