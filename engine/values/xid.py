"""The name of a transaction branch, given by a transaction manager and valid everywhere.

Source: X/Open Distributed Transaction Processing, "XID"; javax.transaction.xa.Xid.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from engine.values.errors import InvalidOption

PART_MAX: Final = 64  # octets of each of the two names
FORMAT_LEAST: Final = -(2**31)
FORMAT_MOST: Final = 2**31 - 1

_TEXT: Final = re.compile(r"(-?[0-9]{1,10})-((?:[0-9a-f]{2}){0,64})-((?:[0-9a-f]{2}){0,64})")


class Xid(NamedTuple):
    """format_id: the transaction manager's own choice.  transaction: global name; branch: of one part of it."""

    format_id: int
    transaction: bytes
    branch: bytes

    def __str__(self) -> str:
        """Return the form of logs, addresses of HTTP and commands: the two names in hex."""
        return f"{self.format_id}-{self.transaction.hex()}-{self.branch.hex()}"


def xid_of(text: str) -> Xid:
    """Return the xid that ``str`` wrote.  Raises: InvalidOption."""
    found = _TEXT.fullmatch(text)
    if found is None or not FORMAT_LEAST <= int(found[1]) <= FORMAT_MOST:
        raise InvalidOption(
            f"{text[:300]!r} is no xid; allowed is FORMAT-TRANSACTION-BRANCH, the last two in hex of at most "
            f"{PART_MAX} octets each"
        )
    return Xid(int(found[1]), bytes.fromhex(found[2]), bytes.fromhex(found[3]))
