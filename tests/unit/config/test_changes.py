"""What a reload reports, and what of it a running gateway takes over."""

from __future__ import annotations

from typing import Any

import pytest

from config.loader import merged
from config.model import ServerConfig
from config.reports.changes import Changes, changes, with_rights_of
from config.scram import hash_password
from config.sources import yaml

ONE, TWO = (f"\n    verifiers: ['{hash_password(text, 4_096)[0]}']" for text in ("one", "two"))
BASE = f"users:\n  ann:{ONE}\n  bob:{ONE}\n    groups: [a, b]\n"


def config(text: str) -> ServerConfig:
    return merged([yaml.read("p.yaml", text.encode())])


@pytest.mark.parametrize(
    ("old", "new", "applied", "restart"),
    [
        (BASE, f"# moved\n\n{BASE}", [], []),
        (BASE, BASE.replace(f"ann:{ONE}", f"ann:{TWO}"), ["users.ann: other verifiers"], []),
        (BASE, BASE.replace("  ann:", "  zoe:"), ["users.ann: removed", "users.zoe: added"], []),
        (BASE, BASE.replace("[a, b]", "c"), ["users.bob: groups c, before a, b"], []),
        (
            BASE + "permissions: [{match: a.>, read: x}, {match: b, kind: queue, read: x}]\n",
            BASE + "permissions: [{match: a.>, read: y}, {match: c, read: x}]\n",
            ["permissions.a.>: other grants", "permissions.b (queue): removed", "permissions.c: added"],
            [],
        ),
        (
            BASE,
            BASE + "memory-limit-bytes: 1GiB\naddresses: [{match: a, nack: requeue}]\ndestinations: [q]\n",
            [],
            ["memory-limit-bytes: 1GiB, before 256MiB", "destinations: another list", "addresses.a: added"],
        ),
        ("", BASE, [], ["users.ann: added", "users.bob: added", "users.bob: groups a, b, before none"]),
        (BASE, "", [], ["users.ann: removed", "users.bob: removed"]),
    ],
)
def test_lines(old: str, new: str, applied: list[str], restart: list[str]) -> None:
    before, after = config(old), config(new)
    found = changes(before, after)
    assert sorted(found.applied) == sorted(applied) and found.restart[: len(restart)] == restart
    left: Any = changes(with_rights_of(before, after), after)
    assert left == Changes([], found.restart), "what needed a restart needs it still"


def test_passwords_in_plain_text_do_not_change_by_being_read_again() -> None:
    documents = [yaml.read("p.yaml", b"") for _ in range(2)]
    for document in documents:
        document.passwords["ann"] = "secret"
    assert changes(merged(documents[:1]), merged(documents[1:])) == Changes([], [])
