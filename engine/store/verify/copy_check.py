"""Verifies a store that a gateway has open: it checks a copy at one durable offset, and then removes the copy.

The copy is a backup inside the store's directory.  What never changes again is linked, so it costs little more than the
segment in use.  Full files of the key index are included.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from engine.store.disk.files import RealFiles
from engine.store.index.index_file import INDEX_DIRECTORY, list_index
from engine.store.read.backup import copy_store
from engine.store.read.reader import StoreReader
from engine.store.verify.findings import Finding, Verification
from engine.store.verify.store_check import verify
from engine.values.errors import StoreError
from engine.values.message_keys import Keys

COPY_PREFIX: Final = "verifying-"  # followed by the pid of its maker


def verify_open(directory: Path, keys: Keys | None) -> Verification:
    """Raises: StoreError; OSError if the copy cannot be made."""
    remove_abandoned(directory)
    copy = directory / f"{COPY_PREFIX}{os.getpid()}"
    try:
        made = copy_store(directory, copy)
        _link_index(directory, copy, made.until_offset)
        result = verify(RealFiles(), str(copy), keys)
        result.findings = [_in_the_original(each, str(copy), str(directory)) for each in result.findings]
        return result
    except OSError as error:
        raise StoreError(f"no copy of {directory} can be made for verification: {error}") from error
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _in_the_original(finding: Finding, copy: str, directory: str) -> Finding:
    """Return a finding with the names of the original files, which are the same as in the copy."""
    return Finding(finding.path.replace(copy, directory), finding.position, finding.text.replace(copy, directory))


def _link_index(directory: Path, copy: Path, end: int) -> None:
    (copy / INDEX_DIRECTORY).mkdir()
    for file in list_index(directory, StoreReader(directory).store_id, False, end):
        if file.header.is_sealed and file.header.end <= end:
            try:
                os.link(file.path, copy / INDEX_DIRECTORY / file.path.name)
            except FileNotFoundError:  # dropped by retention meanwhile
                continue


def remove_abandoned(directory: Path) -> None:
    """Remove copies of killed verifications: their links would keep what retention drops."""
    for path in directory.glob(f"{COPY_PREFIX}*"):
        pid = path.name.removeprefix(COPY_PREFIX).removesuffix(".making")
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(path, ignore_errors=True)
