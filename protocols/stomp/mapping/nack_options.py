"""Options of a NACK beside the message that it names."""

from __future__ import annotations

from typing import Final

from engine.values.delivery import AS_THE_ADDRESS_SAYS, Refusal
from engine.values.errors import InvalidOption
from protocols.stomp.mapping.option_values import boolean, number

DELAY_MOST_MS: Final = 365 * 86_400_000
REASON_MOST: Final = 1_000  # characters of a reason that are kept


def refusal_in(headers: dict[str, str], unsaid: Refusal = AS_THE_ADDRESS_SAYS) -> Refusal:
    """Return the refusal that a NACK asks for, ``unsaid`` if it has no option.  Raises: InvalidOption.

    requeue: true puts the message back to its place without counting an attempt, false dead-letters it (RabbitMQ's
    header); without it the address decides.  delay: milliseconds until it is delivered again.  reason: kept with a dead
    letter.
    """
    requeue = headers.get("requeue")
    delay = headers.get("delay")
    reason = headers.get("reason")
    if requeue is None and delay is None and reason is None:
        return unsaid
    is_requeued = None if requeue is None else boolean("requeue", requeue)
    delay_ms = None if delay is None else number("delay", delay, 0, DELAY_MOST_MS)
    if is_requeued is False and delay_ms is not None:
        raise InvalidOption("NACK has requeue:false, which gives the message up, and a delay; allowed is one of them")
    text = "" if reason is None else reason[:REASON_MOST]
    if is_requeued is None:
        # A NACK with a delay asks for the message again; a reason alone changes nothing else.
        return Refusal(unsaid.mode if delay_ms is None else "redeliver" if unsaid.mode else None, delay_ms, text=text)
    return Refusal("requeue" if is_requeued else "dead-letter", delay_ms, text=text)
