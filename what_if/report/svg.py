"""What the parts of a picture share: its size, and texts."""

from __future__ import annotations

from html import escape
from typing import Final

WIDTH: Final = 860
LEFT: Final = 70
RIGHT: Final = 20


def text(x: float, y: float, words: str, attributes: str = "", more: str = "") -> str:
    """more: what a browser shows when the mouse is there."""
    title = f"<title>{escape(more)}</title>" if more else ""
    return f'<text x="{x:g}" y="{y:g}" {attributes}>{escape(words)}{title}</text>'
