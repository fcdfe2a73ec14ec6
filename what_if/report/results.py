"""What simulations have found beside what really happened, as a document for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from what_if.figures import Figures
from what_if.trace.trace import Owner

REALLY: Final = "really"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """One column of a report: its name, and the figures of each queue and durable subscription by its label."""

    name: str
    figures: dict[str, Document]


def result_of(name: str, figures: dict[Owner, Figures]) -> Result:
    """Return what can be sent to another process."""
    return Result(name, {owner.label(): each.document() for owner, each in figures.items()})


def document(results: Sequence[Result], start_ms: int, end_ms: int, part_ms: int) -> Document:
    """Return the report.  results: what really happened, the present configuration, then the others."""
    labels = sorted({label for result in results for label in result.figures})
    return {
        "from_ms": start_ms,
        "to_ms": end_ms,
        "part_ms": part_ms,
        "runs": [result.name for result in results],
        "destinations": {
            label: {result.name: result.figures[label] for result in results if label in result.figures}
            for label in labels
            if any(result.figures[label]["messages"] for result in results if label in result.figures)
        },
    }
