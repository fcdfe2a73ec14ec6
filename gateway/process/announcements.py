"""What the gateway says at its start: the addresses, and what became of the store."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Final

from config.model import Endpoint, ServerConfig
from engine.store.file_store import FileStore
from engine.store.log.store_directory import LogRange

log: Final = logging.getLogger("penstock")


def log_recovery(store: FileStore) -> None:
    """Log what the start found in the store, and what is lost."""
    report = store.report
    if report.is_new:
        return
    if report.is_clean:
        log.info("store: closed cleanly, durable up to log offset %d", store.durable_offset())
    else:
        log.info(
            "store: not closed cleanly; replayed log offsets %d to %d, %d records",
            report.replayed_from,
            report.replayed_to,
            report.replayed_records,
        )
    if report.rebuilt:
        log.warning("store: consume queues rebuilt: %s", report.rebuilt)
    if report.cut is not None:
        log.warning("store: a torn tail was cut off: %s", _place(report.cut))
    for lost in report.skipped:
        log.error("store: corruption skipped as requested, the damaged part is lost: %s", _place(lost))


def _place(lost: LogRange) -> str:
    return f"{lost.path} at position {lost.position}, log offsets {lost.offset} to {lost.end}: {lost.reason}"


def announce(listeners: dict[str, Endpoint], config: ServerConfig, json_output: bool) -> None:
    """Print the addresses that are listened to."""
    if json_output:
        uris = {name: str(endpoint) for name, endpoint in listeners.items()}
        print(json.dumps({"listeners": uris, "pid": os.getpid()}), flush=True)
        return
    print(f"Penstock is running, pid {os.getpid()}, store in {os.path.abspath(config.data_directory)}")
    for name, endpoint in listeners.items():
        print(f"  {name:6} {endpoint}")
    sys.stdout.flush()
