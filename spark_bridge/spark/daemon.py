"""Starts the workers of a Spark on this machine, with the pyspark that is installed here, as ``python -m``.

Spark's own path begins with a zip of pyspark's source, which every start compiles again, for most of a second.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith(("pyspark.zip", "-src.zip"))]
    from pyspark.daemon import manager

    manager()
