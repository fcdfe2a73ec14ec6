"""``penstock`` in a process that may open few files."""

from __future__ import annotations

import resource
import sys
from typing import Final

from gateway.__main__ import main

FILES_MAX: Final = 512

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    sys.exit(main())
