"""A negative answer to a delivery, in the engine's words: NACK, released, rejected, modified, a rollback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.policies import Nack
from engine.values.outcomes import CAUSE_NACK


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the client wants done with the delivery.

    mode: redeliver (counts as an attempt and waits), dead-letter (at once), requeue (back to its place, not counted);
    None means the address setting.
    delay_ms: the wait, instead of the policy's; None for the policy's own delay.  A requeued delivery waits only if
    this is given.
    cause: engine.ports.CAUSE_*; text: the client's own words, kept with a dead letter.
    is_excluding: this consumer must not get it again.
    annotations: all annotations for its next receiver; b"" keeps those that were added before.
    """

    mode: Nack | None = None
    delay_ms: int | None = None
    cause: int = CAUSE_NACK
    text: str = ""
    is_excluding: bool = False
    annotations: bytes = b""


AS_THE_ADDRESS_SAYS: Final = Refusal()
ROLLED_BACK: Final = Refusal("redeliver", 0)
ROLLED_BACK_LATER: Final = Refusal("redeliver")
