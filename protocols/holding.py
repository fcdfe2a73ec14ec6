"""The memory that a connection holds, in words."""

from __future__ import annotations


def holding_words(under_way_bytes: int, transaction_bytes: int, parked_bytes: int, name_bytes: int) -> str:
    """Return each part that is there with its octets; "" for nothing."""
    parts = (
        ("messages under way", under_way_bytes),
        ("open transactions", transaction_bytes),
        ("what waits at a gate", parked_bytes),
        ("links", name_bytes),
    )
    return ", ".join(f"{what} {size}" for what, size in parts if size)
