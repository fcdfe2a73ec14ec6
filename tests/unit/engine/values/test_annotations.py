"""Lines that the broker adds to a message."""

from __future__ import annotations

from engine.values.annotations import annotation


def test_an_annotation_is_one_line_whatever_is_in_it() -> None:
    assert annotation("cause", "plain") == b"cause:plain\n"
    assert annotation("a:b", "x\ny\r\\z:ü") == "a\\cb:x\\ny\\r\\\\z\\cü\n".encode()
