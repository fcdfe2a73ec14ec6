"""Tells a gateway what has been exported: a small file in the store's directory for each export target.

``exports/<hash of the target>.json`` says up to which log offset which destinations are exported.  The exporter writes
the whole file under another name and renames it; the gateway reads the files whenever it checks its segments.  An
invalid file has no effect: retention then waits longer, at most until its deadline.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Final

from engine.store.disk.files import Files, read_fully

FOLDER: Final = "exports"
FORMAT: Final = 1
SIZE_MAX: Final = 16 << 20  # of one file


def write_watermark(
    data: Path, store_id: str, target: str, pattern: str, numbers: list[int], to_offset: int, now_ms: int
) -> None:
    """Inform the gateway of ``data`` that messages of these destinations below ``to_offset`` are in ``target``.

    Raises: OSError if the store's directory cannot be written to.
    """
    folder = data / FOLDER
    folder.mkdir(exist_ok=True)
    described = {
        "format": FORMAT,
        "store_id": store_id,
        "target": target,
        "destination": pattern,
        "destinations": numbers,
        "to_offset": to_offset,
        "written_ms": now_ms,
    }
    name = sha256(target.encode()).hexdigest()[:16]
    temporary = folder / f"{name}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(described, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, folder / f"{name}.json")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_watermarks(files: Files, directory: str, store_id: str) -> dict[int, int]:
    """Return the log offset up to which each destination is exported, by its number; the furthest export counts.

    Raises: OSError.
    """
    found: dict[int, int] = {}
    for name in files.list_directory(f"{directory}/{FOLDER}"):
        if not name.endswith(".json"):
            continue
        file = files.open_to_read(f"{directory}/{FOLDER}/{name}")
        try:
            octets = read_fully(file, min(file.size(), SIZE_MAX), 0)
        finally:
            file.close()
        try:
            described = json.loads(octets)
            if described["format"] != FORMAT or described["store_id"] != store_id:
                continue
            to_offset = int(described["to_offset"])
            numbers = [int(number) for number in described["destinations"]]
        except (KeyError, TypeError, ValueError):
            continue
        for number in numbers:
            found[number] = max(found.get(number, 0), to_offset)
    return found
