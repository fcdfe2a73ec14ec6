"""How a connection comes to its end."""

from __future__ import annotations

from protocols.stomp.session.ending import Ending


def test_nothing_ends_by_itself() -> None:
    ending = Ending()
    assert not ending.is_over(2**62)


def test_an_error_that_closes_follows_the_confirmations_before_it() -> None:
    ending = Ending()
    ending.fail(b"ERROR", 5_000)
    assert ending.take_error(0, is_idle=False) == b""
    assert ending.take_error(1, is_idle=True) == b"ERROR"
    assert ending.error == b"", "it leaves once"


def test_an_error_that_closes_does_not_wait_longer() -> None:
    ending = Ending()
    ending.fail(b"ERROR", 5_000)
    assert (ending.take_error(4_999, is_idle=False), ending.is_over(4_999)) == (b"", False)
    assert (ending.take_error(5_000, is_idle=False), ending.is_over(5_000)) == (b"ERROR", True)


def test_whoever_leaves_in_order_gets_an_error_only_if_it_is_late() -> None:
    ending = Ending()
    ending.leave(b"ERROR", 5_000)
    assert ending.take_error(1, is_idle=False) == ending.take_error(2, is_idle=True) == b""
    assert ending.take_error(5_000, is_idle=False) == b"ERROR"


def test_confirmed_in_the_last_moment_is_not_late() -> None:
    ending = Ending()
    ending.leave(b"ERROR", 5_000)
    assert ending.take_error(5_000, is_idle=True) == b""
