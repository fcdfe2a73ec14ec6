"""How a connection comes to its end."""

from __future__ import annotations

from protocols.ending import Ending


def test_nothing_ends_by_itself() -> None:
    ending = Ending()
    assert not ending.is_over(2**62, is_owed=True)


def test_last_words_follow_the_confirmations_before_them() -> None:
    ending = Ending()
    ending.begin(b"ERROR", b"ERROR", 5_000)
    assert ending.take_words(0, is_owed=True) == b""
    assert not ending.is_over(0, is_owed=False), "the words have not left"
    assert ending.take_words(1, is_owed=False) == b"ERROR"
    assert ending.take_words(2, is_owed=False) == b"", "they leave once"
    assert ending.is_over(2, is_owed=False)


def test_last_words_do_not_wait_longer() -> None:
    ending = Ending()
    ending.begin(b"ERROR", b"ERROR", 5_000)
    assert (ending.take_words(4_999, is_owed=True), ending.is_over(4_999, is_owed=True)) == (b"", False)
    assert (ending.take_words(5_000, is_owed=True), ending.is_over(5_000, is_owed=True)) == (b"ERROR", True)


def test_whoever_leaves_in_order_gets_an_error_only_if_it_is_late() -> None:
    ending = Ending()
    ending.begin(b"", b"ERROR", 5_000)
    assert ending.take_words(1, is_owed=True) == b""
    assert ending.take_words(5_000, is_owed=True) == b"ERROR"


def test_confirmed_in_the_last_moment_is_not_late() -> None:
    ending = Ending()
    ending.begin(b"CLOSE", b"LATE", 5_000)
    assert ending.take_words(5_000, is_owed=False) == b"CLOSE"
    assert ending.take_words(5_001, is_owed=True) == b""
