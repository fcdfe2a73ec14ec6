"""JSON bodies of requests."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


async def json_object(request: web.Request) -> dict[str, Any] | None:
    """Return the body's JSON object; None for anything else, for example broken or deeply nested JSON."""
    try:
        asked = json.loads(await request.text())
    except (ValueError, LookupError, RecursionError):  # no JSON, unknown charset, too deep
        return None
    return asked if isinstance(asked, dict) else None
