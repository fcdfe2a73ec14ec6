"""Long tasks of a running gateway: one request begins a task, others ask how far it is."""

from __future__ import annotations

import argparse
from time import sleep
from typing import Any, Final

from engine.values.errors import StoreError
from gateway.cli.shared.http_client import authorization_of, fetch

POLL_INTERVAL_S: Final = 0.2


def run_task(arguments: argparse.Namespace, what: str) -> dict[str, Any]:
    """Return what came of it.  Raises: HttpError, PasswordNeeded; StoreError that says why it failed."""
    authorization = authorization_of(arguments.user)
    status = fetch(arguments.http, f"/api/store/{what}", authorization, "POST", {})
    path = f"/api/store/{what}/{status['task']}"
    while not status["done"]:
        sleep(POLL_INTERVAL_S)
        status = fetch(arguments.http, path, authorization)
    if status["failure"]:
        raise StoreError(status["failure"])
    return status
