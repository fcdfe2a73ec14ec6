"""SASLprep: one form of a password that can be typed in several ways (RFC 4013, a profile of RFC 3454)."""

from __future__ import annotations

import stringprep
from typing import Final

# RFC 3454 is defined over Unicode 3.2, and a newer Python must not change a password.
from unicodedata import ucd_3_2_0

_FORBIDDEN: Final = (
    stringprep.in_table_a1,  # unassigned
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str | None:
    """Return ``text`` prepared, None if the profile forbids it."""
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    prepared = ucd_3_2_0.normalize("NFKC", mapped)
    if not prepared or any(is_in(character) for character in prepared for is_in in _FORBIDDEN):
        return None
    if any(stringprep.in_table_d1(character) for character in prepared):
        # Right-to-left text: no left-to-right letter in it, and right-to-left at both ends (RFC 3454, section 6).
        is_mixed = any(stringprep.in_table_d2(character) for character in prepared)
        if is_mixed or not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1])):
            return None
    return prepared
