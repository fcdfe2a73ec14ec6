"""What a NACK may ask for."""

from __future__ import annotations

import pytest

from engine.values.delivery import AS_THE_ADDRESS_SAYS, Refusal
from engine.values.errors import InvalidOption
from protocols.stomp.mapping.nack_options import REASON_MOST, refusal_in


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ({}, AS_THE_ADDRESS_SAYS),
        ({"message-id": "m", "subscription": "s", "transaction": "t"}, AS_THE_ADDRESS_SAYS),
        ({"requeue": "true"}, Refusal("requeue")),
        ({"requeue": "False"}, Refusal("dead-letter")),
        ({"delay": "0"}, Refusal(None, 0)),
        ({"delay": " 1500 "}, Refusal(None, 1_500)),
        ({"requeue": "1", "delay": "10"}, Refusal("requeue", 10)),
        ({"reason": "no stock"}, Refusal(text="no stock")),
        ({"requeue": "false", "reason": "x" * 2_000}, Refusal("dead-letter", text="x" * REASON_MOST)),
    ],
)
def test_what_is_asked_for(headers: dict[str, str], refusal: Refusal) -> None:
    assert refusal_in(headers) == refusal


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"requeue": "maybe"}, "requeue is 'maybe'; allowed are true and false"),
        ({"delay": "-1"}, "delay is '-1'; allowed is a whole number from 0 to"),
        ({"delay": "soon"}, "delay is 'soon'"),
        ({"delay": str(366 * 86_400_000)}, "delay is"),
        ({"requeue": "false", "delay": "5"}, "allowed is one of them"),
    ],
)
def test_what_makes_no_sense(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        refusal_in(headers)
