"""How a target divides its rows into files: the columns whose values name their folders, kept in each manifest.

By destination and date, each destination has files of its own.  By date alone a file holds many destinations, sorted:
where they are many, a file for each costs more than its rows.
"""

from __future__ import annotations

from typing import Final

Partitioning = tuple[str, ...]

BY_DESTINATION: Final[Partitioning] = ("destination", "date")
BY_DATE: Final[Partitioning] = ("date",)
PARTITIONINGS: Final = (BY_DESTINATION, BY_DATE)
MOST_DESTINATIONS: Final = 100  # that have files of their own in a new target, unless it is told


def partitioning_for(destinations: int) -> Partitioning:
    """Return the partitioning of a new target by the number of its destinations."""
    return BY_DESTINATION if destinations <= MOST_DESTINATIONS else BY_DATE
