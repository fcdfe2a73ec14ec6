"""A negative answer to a delivery, in the engine's words: NACK, released, rejected, modified, a rollback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.policies import Nack
from engine.values.outcomes import CAUSE_NACK


@dataclass(frozen=True, slots=True)
class Refusal:
    """The fate of the delivery.

    mode: redeliver (it counts as an attempt and waits), dead-letter (at once), requeue (back to its place, not
    counted); None is what the address says.
    delay_ms: how long it waits instead of what the policy says, None for the policy's own delay; a requeued one waits
    only if this is given.
    cause: engine.ports.CAUSE_*; text: the client's own words, kept with a dead letter.
    is_excluding: this consumer is not to have it again.
    annotations: all that is added to the message for whoever has it next, b"" for what was added before.
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
