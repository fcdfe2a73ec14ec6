"""What another server may call a user or a group."""

from __future__ import annotations

from typing import Final

NAME_MAX_CHARACTERS: Final = 255  # as in the configuration


def is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_MAX_CHARACTERS and text.isprintable()
