"""Exports and named streams, as a running gateway or the files of a store know them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.cli.shared.http_client import fetch


def readers_at(url: str, authorization: str | None) -> list[dict[str, Any]]:
    """Return those that the gateway at ``url`` knows.  Raises: HttpError."""
    found: list[dict[str, Any]] = fetch(url, "/api/store/readers", authorization)["readers"]
    return found


def readers_in(directory: str) -> list[dict[str, Any]]:
    """Return those of a store.  Raises: StoreError if there is none; OSError."""
    from engine.store.read.log_readers import log_readers

    return [asdict(reader) for reader in log_readers(Path(directory))]
