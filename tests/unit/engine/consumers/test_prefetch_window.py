"""Windows: how much may be in flight, and when a full one opens again (docs/reference/semantics.md)."""

from __future__ import annotations

import pytest

from config.policies import AddressSettings, PrefetchPolicy
from engine.clients.window_options import window_for
from engine.consumers.consumer import INDIVIDUAL
from engine.consumers.prefetch_window import EXTENSION_MAX, UNCOUNTED_SHARE, Window
from engine.values import gates
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from tests.support.fakes import VirtualClock


def fill(window: Window) -> int:
    taken = 1
    while not window.take():
        taken += 1
    return taken


@pytest.mark.parametrize(
    ("prefetch", "is_half", "limit", "resume_at"),
    [
        (10, True, 10, 5),
        (7, True, 7, 3),
        (2, True, 2, 1),
        (1, True, 1, 0),
        (0, True, 1, 0),
        (10, False, 10, 9),
        (1, False, 1, 0),
        (0, False, 1, 0),
    ],
)
def test_a_full_window_opens_again_at(prefetch: int, is_half: bool, limit: int, resume_at: int) -> None:
    window = Window(prefetch, is_half)
    assert fill(window) == limit
    assert window.is_full
    opened = []
    while window.in_flight:
        if window.give_back(1):
            opened.append(window.in_flight)
    assert opened == [resume_at]
    assert not window.is_full


def test_a_window_that_never_filled_does_not_report_an_opening() -> None:
    window = Window(10, True)
    assert not window.take()
    assert not window.give_back(1)


def test_after_an_opening_it_fills_up_again() -> None:
    window = Window(10, True)
    fill(window)
    for _ in range(5):
        window.give_back(1)
    assert fill(window) == 5


def test_an_abort_takes_places_back_even_past_the_limit() -> None:
    window = Window(2, False)
    fill(window)
    window.give_back(1)  # acknowledged inside a transaction
    assert window.take()  # another one is handed out
    window.retake(1)
    assert (window.in_flight, window.is_full) == (3, True)
    assert not window.give_back(1)  # 2 of 2: still full
    assert window.give_back(1)


def test_an_abort_below_the_limit_leaves_the_window_open() -> None:
    window = Window(4, True)
    window.take()
    window.give_back(1)
    window.retake(1)
    assert (window.in_flight, window.is_full) == (1, False)


# -- octets (HornetQ consumer-window-size)


def message(size: int, persistent: bool = True) -> Message:
    return Message(1, STOMP, PERSISTENT if persistent else 0, 4, 0, 0, 0, b"", b"", b"x" * size)


def hand_out(window: Window, sizes: list[int]) -> list[int]:
    """Hand out messages until the window refuses one; return the sizes of those that went."""
    went: list[int] = []
    for size in sizes:
        if window.is_full or (size > window.counted_above and not window.admits(message(size), False, VirtualClock())):
            break
        window.take()
        went.append(size)
    return went


@pytest.mark.parametrize(
    ("max_bytes", "sizes", "went", "credit"),
    [
        (-1, [1_000_000] * 5, 5, None),
        (100, [10] * 20, 10, 0),
        (100, [40, 40, 40, 40], 3, -20),
        (100, [1_000, 1], 1, -900),
        (1, [10, 10], 1, -9),
        (0, [10, 10], 1, -9),
    ],
    ids=["no limit", "exact", "negative by one message", "larger than the window", "1", "0: none ahead"],
)
def test_octets_go_out_while_there_is_credit(max_bytes: int, sizes: list[int], went: int, credit: int | None) -> None:
    window = Window(1_000, True)
    window.limit_bytes(max_bytes)
    assert len(hand_out(window, sizes)) == went
    if credit is not None:
        assert window.limits.octets is not None
        assert window.limits.octets.credit == credit
        assert (window.is_full, window.gate) == (went < len(sizes), gates.BYTES_FULL if window.is_full else window.gate)


@pytest.mark.parametrize(("is_half", "settled"), [(True, 5), (False, 1)], ids=["half", "each-ack"])
def test_credit_comes_back_in_halves_or_with_each_acknowledgement(is_half: bool, settled: int) -> None:
    window = Window(1_000, is_half)
    window.limit_bytes(100)
    assert len(hand_out(window, [10] * 20)) == 10
    opened = 0
    while window.is_full:
        window.give_back(10)
        opened += 1
    assert opened == settled
    assert len(hand_out(window, [10] * 20)) == settled


def test_all_credit_is_back_when_nothing_is_in_flight() -> None:
    window = Window(10, True)
    window.limit_bytes(1_000)
    hand_out(window, [30])
    window.give_back(30)
    octets = window.limits.octets
    assert octets is not None
    assert (octets.credit, octets.returned, octets.in_flight()) == (1_000, 0, 0)


def test_the_default_bounds_large_messages_and_counts_no_small_ones() -> None:
    window = window_for(AddressSettings(), SubscribeOptions(INDIVIDUAL), False, False)
    assert window.limits.octets is not None
    assert (window.limit, window.limits.octets.limit) == (1_000, 64 * 1024 * 1024)
    assert window.counted_above * window.limit * UNCOUNTED_SHARE <= window.limits.octets.limit
    assert window.counted_above > 1_024
    hundred = 100 * 1024 * 1024
    assert window.admits(sized(hundred), False, VirtualClock())
    window.take()
    assert not window.admits(sized(hundred), False, VirtualClock())
    assert window.gate == gates.BYTES_FULL


def sized(size: int) -> Message:
    """Return a message that says it is large."""
    message = Message(1, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"")
    message.size = size
    return message


def test_a_transaction_that_is_aborted_takes_its_octets_again() -> None:
    window = Window(10, True)
    window.limit_bytes(100)
    hand_out(window, [60])
    window.give_back(60)
    window.retake(60)
    assert window.limits.octets is not None
    assert window.limits.octets.credit + window.limits.octets.returned == 40


# -- two kinds of messages


def test_persistent_and_other_messages_have_limits_of_their_own() -> None:
    settings = AddressSettings(prefetch=PrefetchPolicy(queue_prefetch=2, non_persistent_queue_prefetch=5))
    window = window_for(settings, SubscribeOptions(INDIVIDUAL), False, False)
    for _ in range(2):
        assert window.admits(message(1), False, VirtualClock())
        window.take()
    assert not window.admits(message(1), False, VirtualClock())
    assert (window.is_full, window.describe()) == (True, "2 of 2 in flight, resumes at 1")
    assert window.give_back(1)
    for _ in range(4):
        assert window.admits(message(1, persistent=False), False, VirtualClock())
        window.take()
    assert (window.is_full, window.describe()) == (True, "5 of 5 in flight, resumes at 2")


def test_an_explicit_prefetch_is_of_both_kinds_and_the_same_limit_is_one() -> None:
    settings = AddressSettings(prefetch=PrefetchPolicy(queue_prefetch=2, non_persistent_queue_prefetch=5))
    explicit = window_for(settings, SubscribeOptions(INDIVIDUAL, 7), False, False)
    assert (explicit.limit, explicit.limits.persistent, explicit.limits.other) == (7, 7, 7)
    default = window_for(AddressSettings(), SubscribeOptions(INDIVIDUAL), False, False)
    assert default.counted_above >= 0, "no message is asked for its kind"


@pytest.mark.parametrize(
    ("is_topic", "options", "limit"),
    [
        (False, SubscribeOptions(INDIVIDUAL), 1_000),
        (False, SubscribeOptions(INDIVIDUAL, is_browser=True), 500),
        (True, SubscribeOptions(INDIVIDUAL, is_durable=True), 100),
        (True, SubscribeOptions(INDIVIDUAL), 32_766),
        (False, SubscribeOptions(INDIVIDUAL, 1_000), 1_000),
        (True, SubscribeOptions(INDIVIDUAL, 32_767), 32_766),
        (False, SubscribeOptions(INDIVIDUAL, 1), 1),
        (False, SubscribeOptions(INDIVIDUAL, 0), 1),
    ],
    ids=["queue", "browser", "durable topic", "topic", "explicit 1000", "clamped", "one at a time", "pull"],
)
def test_prefetch_of_each_kind_of_consumer(is_topic: bool, options: SubscribeOptions, limit: int) -> None:
    assert window_for(AddressSettings(), options, is_topic, False).limit == limit


@pytest.mark.parametrize(
    ("prefetch", "dispatched", "extension", "is_full", "room"),
    [(10, 9, 0, False, 1), (10, 10, 0, True, 0), (10, 12, 3, False, 1), (10, 13, 3, True, 0), (1, 1, 1, False, 1)],
)
def test_full_and_room_are_activemqs(prefetch: int, dispatched: int, extension: int, is_full: bool, room: int) -> None:
    """Semantics 2.1: full when dispatched - prefetchExtension >= prefetch; room is what is left of both."""
    window = Window(prefetch, False)
    for number in range(dispatched):
        window.take()
        if number < extension:
            window.give_back(1)  # acknowledged inside a transaction: prefetchExtension += 1
    assert window.is_full == is_full
    assert prefetch + extension - dispatched == window.limit - window.in_flight == room


# -- rates


def test_so_many_a_second_and_the_rest_of_the_second_is_waited_for() -> None:
    window = Window(100, True)
    window.limit_rate(3)
    clock = VirtualClock()
    assert [window.admits(message(1), True, clock) for _ in range(4)] == [True, True, True, False]
    assert (window.is_full, window.gate, window.describe()) == (
        True,
        gates.RATE,
        "3 messages a second (consumer-max-rate)",
    )
    assert not window.give_back(1), "an acknowledgement does not change the rate"
    window.reopen(gates.RATE)
    assert not window.is_full
    clock.now_ms = 5_999
    assert not window.admits(message(1), True, clock)
    window.reopen(gates.RATE)
    clock.now_ms = 6_000
    assert window.admits(message(1), True, clock)


@pytest.mark.parametrize(("prefetch", "processed"), [(10, 5), (7, 4), (2, 1), (1, 1)])
def test_a_client_that_has_processed_half_gets_more(prefetch: int, processed: int) -> None:
    window = Window(prefetch, True)
    fill(window)
    assert window.extend(processed)
    assert fill(window) == processed
    assert window.in_flight == prefetch + processed


def test_a_settled_message_takes_its_part_of_the_extension_along() -> None:
    window = Window(4, True)
    fill(window)
    window.extend(2)
    assert "4 of 6 in flight, 2 of them processed" in window.describe()
    assert not window.extend(1)  # it never shrinks this way
    window.give_back(0)
    assert (window.in_flight, window.extension, window.limit) == (3, 1, 5)
    window.give_back_all([0, 0])
    assert (window.in_flight, window.extension, window.limit) == (1, 0, 4)


def test_an_extension_has_a_limit() -> None:
    window = Window(EXTENSION_MAX + 5, False)
    fill(window)
    window.extend(EXTENSION_MAX + 5)
    assert window.extension == EXTENSION_MAX


def test_an_extension_opens_no_window_that_is_full_of_octets() -> None:
    window = Window(10, False)
    window.limit_bytes(1_000)
    large = Message(1, STOMP, 0, 4, 0, 0, 0, b"", b"", b"x" * 1_000)
    assert window.admits(large, False, VirtualClock())
    window.take()
    assert not window.admits(large, False, VirtualClock())
    assert not window.extend(1)
    assert window.gate == gates.BYTES_FULL
