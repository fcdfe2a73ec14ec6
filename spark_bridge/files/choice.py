"""The place of a lake or a store, as users give it -> its files."""

from __future__ import annotations

import os
from pathlib import Path

from engine.store.read.store_files import RemotePath
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.files.local import LocalFiles
from spark_bridge.files.place import is_gateway, is_url, parse_place


def files_at(place: str | Path) -> LakeFiles:
    """Raises: TargetError for a URL of another kind."""
    text = os.fspath(place)
    if not is_url(text):
        return LocalFiles(Path(text))
    from spark_bridge.files.objects import ObjectFiles  # with the clients of object stores, which few need

    return ObjectFiles(parse_place(text))


def file_at(place: str | Path) -> tuple[LakeFiles, str]:
    """Return the files of a place, and if it is a Parquet file, those around it and its name; otherwise "".

    Raises: TargetError, LakeError.
    """
    text = os.fspath(place)
    path, mark, query = text.partition("?") if is_url(text) else (text, "", "")
    folder, slash, name = path.rpartition("/")
    if name.endswith(".parquet"):
        around = files_at(f"{folder}{slash}{mark}{query}" or ".")
        if around.status(name) is not None:
            return around, name
    return files_at(place), ""


def store_at(place: str | Path) -> Path:
    """Return the path of a store: of a directory, of a copy in an object store, or of a running gateway's.

    Raises: TargetError for a URL of another kind; LakeError.
    """
    if isinstance(place, RemotePath):
        return place
    text = os.fspath(place)
    if not is_url(text):
        return Path(text)
    if is_gateway(text):
        from spark_bridge.files.gateway_store import GatewayRanges, GatewayStore

        return RemotePath.of(GatewayRanges(GatewayStore(text)))
    from spark_bridge.files.objects import ObjectFiles
    from spark_bridge.files.store_ranges import RangedFiles

    return RemotePath.of(RangedFiles(ObjectFiles(parse_place(text))))
