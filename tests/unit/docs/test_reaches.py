"""Which parts a broker is made of is known to the views of ``tests/support`` alone: tests ask those."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
VIEWS = ("broker_view.py", "feature_view.py", "schedule_view.py")
REACH = re.compile(r"\bbroker\.(?!py\b)[a-z_]+\.[a-z_]+")
REACHES_MOST = 39  # of all views together: it only falls


def test_only_views_reach_into_the_parts_of_a_broker() -> None:
    reaches = {
        str(file.relative_to(TESTS)): found
        for file in TESTS.rglob("*.py")
        if (found := REACH.findall(file.read_text()))
    }
    views = [reaches.pop(f"support/{name}", []) for name in VIEWS]
    assert reaches == {}
    assert 0 < sum(map(len, views)) <= REACHES_MOST
