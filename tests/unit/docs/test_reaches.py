"""Which parts a broker is made of is known to the views in ``tests/support``: tests ask those."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
REACH = re.compile(r"\bbroker\.(?!py\b)[a-z_]+\.[a-z_]+")
REACHES_MOST = 29  # of all tests; all are in the views, and the number only falls


def test_tests_leave_the_parts_of_a_broker_to_views() -> None:
    reaches = {str(file.relative_to(TESTS)): REACH.findall(file.read_text()) for file in TESTS.rglob("*.py")}
    assert reaches["support/engine/broker_view.py"]
    count = sum(map(len, reaches.values()))
    assert count <= REACHES_MOST, f"{count}: { ({name: found for name, found in reaches.items() if found}) }"
