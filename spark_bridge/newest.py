"""Where a target was when an export ended, so that the next one need not list its many names.

It is a note and no more: what is newer is looked for from there, and without the note, or where it names what is not
there, the names are listed.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Final

from spark_bridge.errors import LakeError
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.manifests import FOLDER

PATH: Final = f"{FOLDER}/newest"


@dataclass(frozen=True, slots=True)
class Newest:
    """manifest: number of one, 0 for none.  commits: of the Delta logs, by the folder of the table."""

    manifest: int = 0
    commits: dict[str, int] = field(default_factory=dict)


def read_newest(files: LakeFiles) -> Newest:
    try:
        read = json.loads(files.read(PATH))
        commits = {str(folder): int(version) for folder, version in read["commits"].items()}
        return Newest(int(read["manifest"]), commits)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return Newest()


def write_newest(files: LakeFiles, newest: Newest) -> None:
    """Write the note; if that fails, the next export lists the names."""
    with suppress(LakeError, OSError):
        files.write(PATH, json.dumps(asdict(newest)).encode())
