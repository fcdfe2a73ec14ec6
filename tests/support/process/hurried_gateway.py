"""``penstock run`` whose charts show an hour that passes in a minute and a half; for pictures of the console."""

from __future__ import annotations

import sys
from typing import Final

from gateway.__main__ import main
from gateway.web.samples import history

HOUR_S: Final = 90

if __name__ == "__main__":
    history.INTERVAL_S = HOUR_S / history.POINTS  # type: ignore[misc,assignment]
    sys.exit(main(sys.argv[1:]))
