"""Dialects: a listener may behave like another broker where that one differs from us.

Source: docs/reference/stomp.md, "Dialect activemq".  ActiveMQ answers a wrong request with ERROR and keeps the
connection.  A NACK dead-letters exactly the named message, at once, in every ack mode.  Clients find its name in
CONNECTED and choose their own dialect by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.values.delivery import AS_THE_ADDRESS_SAYS, Refusal


@dataclass(frozen=True, slots=True)
class Dialect:
    """server: our name in CONNECTED, unless the configuration has one; "" for our own.

    keeps_connection: an ERROR that answers a wrong request does not end the connection, in any version.
    nack: the meaning of a NACK without further headers; is_nack_single: also in mode ``client`` it is of one message.
    is_lenient: a header line without a colon is a header without a value, a backslash that begins no escape is a plain
    backslash, and escapes count under 1.0 too.  is_ack_exact: an ACK or NACK must have the headers that its version
    requires.  is_client_id_sole: a second connection with the same client id is refused.  needs_selector: a blank one
    is an error.  is_clamped: a priority or an expiration out of range becomes the nearest allowed value.
    """

    server: str = ""
    keeps_connection: bool = False
    nack: Refusal = AS_THE_ADDRESS_SAYS
    is_nack_single: bool = False
    is_lenient: bool = False
    is_ack_exact: bool = False
    is_client_id_sole: bool = False
    needs_selector: bool = False
    is_clamped: bool = False


PENSTOCK: Final = Dialect()
ACTIVEMQ: Final = Dialect(
    "ActiveMQ/5.18.0 (Penstock)",
    keeps_connection=True,
    nack=Refusal("dead-letter"),
    is_nack_single=True,
    is_lenient=True,
    is_ack_exact=True,
    is_client_id_sole=True,
    needs_selector=True,
    is_clamped=True,
)

DIALECTS: Final[Mapping[str, Dialect]] = {"penstock": PENSTOCK, "activemq": ACTIVEMQ}
