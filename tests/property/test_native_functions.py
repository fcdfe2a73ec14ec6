"""The native functions give what their clear forms give, and refuse what these refuse."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from engine.store.format import layout, message_record
from engine.values.errors import DATA_FAULTS
from protocols.amqp.v1_0.wire.frames import transfer_octets
from protocols.stomp.codec import frame_octets

ROOT = Path(__file__).resolve().parents[2]
Function = Callable[..., Any]
CLEAR_FORMS: tuple[ModuleType, ...] = (frame_octets, message_record, transfer_octets)
NUMBERS = st.one_of(st.integers(0, 300), st.integers(-(1 << 65), 1 << 65))
SHORT = st.binary(max_size=12)


def both(name: str) -> tuple[Function, Function]:
    """Return the clear form of a function and the native one."""
    for module in CLEAR_FORMS:
        if hasattr(module, name):
            plain: Function = getattr(module, f"plain_{name}")
            return plain, native(module, name)
    raise LookupError(name)


def built(module: ModuleType) -> ModuleType:
    """Return the native module of a clear form."""
    room, _, last_name = module.__name__.rpartition(".")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PENSTOCK_NATIVE", raising=False)  # scripts/test sets it
        # Without a C compiler it is not there; on a processor that it does not serve it says so.
        found: ModuleType = pytest.importorskip(f"{room}.native_{last_name}", exc_type=ImportError)
    return found


def native(module: ModuleType, name: str) -> Function:
    function: Function = vars(built(module))[name]
    return function


def result(function: Function, *arguments: object) -> object:
    """Return what a function returns, or that it refuses its arguments."""
    try:
        return function(*arguments)
    except DATA_FAULTS:
        return "refused"


def test_each_native_file_has_a_clear_form() -> None:
    natives = runpy.run_path(str(ROOT / "setup.py"))["native_modules"]()
    assert set(natives) == {"{}.native_{}".format(*module.__name__.rsplit(".", 1)) for module in CLEAR_FORMS}
    assert {str(file.relative_to(ROOT)) for room in ("engine", "protocols") for file in (ROOT / room).rglob("*.c")} == {
        *natives.values()
    }


def record(append: Function, arguments: tuple[object, ...]) -> object:
    """Return what a message adds to other parts and entries, which must be as they were if it is refused."""
    parts, entries = [b"before"], bytearray(b"entries before")
    try:
        append(parts, entries, *arguments)
    except DATA_FAULTS:
        assert parts == [b"before"] and entries == bytearray(b"entries before")
        return "refused"
    return b"".join(parts), bytes(entries)


@given(
    st.tuples(*[NUMBERS] * 6),
    st.tuples(SHORT, SHORT, st.one_of(SHORT, st.integers(2000, 2100).map(random.Random(1).randbytes))),
    st.tuples(*[NUMBERS] * 5),
)
def test_any_message_becomes_the_same_record(
    before: tuple[int, ...], octets: tuple[bytes, ...], after: tuple[int, ...]
) -> None:
    plain, quick = both("append_message")
    arguments = (*before, *octets, *after)
    assert record(plain, arguments) == record(quick, arguments)


@given(st.data())
def test_a_message_with_numbers_that_fit_becomes_the_same_record(data: st.DataObject) -> None:
    plain, quick = both("append_message")
    bits = iter((8, 16, 32, 64, 64, -63, 8, 32, 32, -63, 64))

    def number() -> int:
        size = next(bits)
        return data.draw(st.integers(0, (1 << size) - 1) if size > 0 else st.integers(-(1 << -size), (1 << -size) - 1))

    before = [number() for _ in range(6)]
    octets = data.draw(st.tuples(SHORT, SHORT, st.binary(max_size=3000)))
    arguments = (*before, *octets, *[number() for _ in range(5)])
    found = record(quick, arguments)
    assert found == record(plain, arguments)
    assert found != "refused"


def read(function: Function, *arguments: object) -> object:
    """Return what a function reads, or the flaw that it found."""
    try:
        return function(*arguments)
    except ValueError as flaw:
        return str(flaw)


@given(st.data(), st.tuples(SHORT, SHORT, st.binary(max_size=3000)), st.integers(0, 9), SHORT, st.integers(0, 3000))
def test_the_same_message_or_flaw_is_read(
    data: st.DataObject, contents: tuple[bytes, bytes, bytes], priority: int, before: bytes, body_max: int
) -> None:
    plain, quick = both("read_message")
    parts: list[bytes] = []
    message_record.plain_append_message(
        parts, bytearray(), 1, 3, 7, 4096, 5, 1_700_000_000_000, *contents, priority, 8, 9, 10, 11
    )
    octets = bytearray(before + b"".join(parts))
    size = layout.MESSAGE_HEAD_BYTES + sum(map(len, contents))
    expected = [7, priority, 4096, 11]
    match data.draw(st.sampled_from(["sound", "damaged", "short", "other entry", "other size", "other lengths"])):
        case "damaged":
            octets[data.draw(st.integers(len(before), len(before) + size - 1))] ^= 1 << data.draw(st.integers(0, 7))
        case "short":
            del octets[data.draw(st.integers(0, len(octets))) :]
        case "other entry":
            expected[data.draw(st.integers(0, 3))] += 1
        case "other size":
            size = data.draw(st.integers(0, 1 << 48))
        case "other lengths":
            octets[len(before) + 40] ^= 1
            crc = crc32c(octets[len(before) + 8 : len(before) + size])
            octets[len(before) + 4 : len(before) + 8] = crc.to_bytes(4, "little")
    arguments = (bytes(octets), len(before), size, *expected, body_max)
    assert read(quick, *arguments) == read(plain, *arguments)


@pytest.mark.parametrize("entries_before", [b"", b"a long entry" * 8])
def test_where_memory_ends_nothing_is_appended(entries_before: bytes) -> None:
    memory = pytest.importorskip("_testcapi", reason="this Python has no allocator for tests")
    _, append = both("append_message")
    arguments = (1, 2, 3, 4, 5, 6, b"annotations", b"headers", bytes(3000), 4, 7, 8, 9, 10)
    failures = 0
    for allocation in range(20):
        parts, entries = [b"before"], bytearray(entries_before)
        try:
            memory.set_nomemory(allocation)  # all from this one on fail
            append(parts, entries, *arguments)
        except MemoryError:
            memory.remove_mem_hooks()
            failures += 1
            assert parts == [b"before"]
            assert entries == entries_before
        finally:
            memory.remove_mem_hooks()
    assert 0 < failures < 20


@given(SHORT, NUMBERS, NUMBERS, NUMBERS, SHORT, NUMBERS, NUMBERS)
def test_the_head_of_a_message_is_the_same(
    prefix: bytes, number: int, priority: int, expires_ms: int, persistent: bytes, length: int, time_ms: int
) -> None:
    plain, quick = both("message_head")
    arguments = (prefix, number, priority, expires_ms, persistent, length, time_ms)
    found = result(quick, *arguments)
    if all(-(1 << 63) <= one < 1 << 63 for one in (number, priority, expires_ms, length, time_ms)):
        assert found == result(plain, *arguments)
    else:
        assert found == "refused", "the native function has 64 bits"


@given(st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-2000, 2000)), SHORT)
def test_a_number_and_the_line_of_its_ack_are_the_same(number: int, before: bytes) -> None:
    plain, quick = both("decimal")
    key = plain(number)
    assert quick(number) == key
    plain, quick = both("ack_line")
    assert quick(before, key) == plain(before, key)


PIECES = ["ACK\nid:", "\n\n\0", "SEND\nreceipt:", "\ndestination:/queue/a\n\n", "a", "~", "!", " ", "\\", "\r", "é"]


@given(
    st.lists(st.sampled_from(PIECES)).map(lambda pieces: "".join(pieces).encode()),
    st.integers(0, 30),
    st.sampled_from([b"ACK\nid:", b"SEND\nreceipt:", b""]),
    st.sampled_from([b"\n\n\0", b"\ndestination:/queue/a\n\n", b"\r\n\r\n"]),
    st.integers(0, 12),
)
def test_the_same_value_is_found(octets: bytes, start: int, before: bytes, after: bytes, size_max: int) -> None:
    plain, quick = both("value_between")
    assert quick(octets, start, before, after, size_max) == plain(octets, start, before, after, size_max)


# Up to what a decoder has that knows no transfer yet, and to more than the memory of any machine.
FRAME_BYTES = st.one_of(st.integers(0, 1 << 48), st.just((1 << 64) - 1))


@given(st.data(), SHORT, SHORT, SHORT, SHORT, st.integers(0, 4), FRAME_BYTES)
def test_the_same_transfers_are_alike(
    data: st.DataObject, head: bytes, tag_head: bytes, tail: bytes, tag: bytes, start: int, frame_bytes: int
) -> None:
    plain, quick = both("alike_id")
    octets = bytes(start) + head + data.draw(st.binary(min_size=4, max_size=4)) + tag_head + tag + tail
    tail_at = len(octets) - len(tail) - start
    size = data.draw(st.sampled_from([len(octets) - start, len(octets) - start + 1, frame_bytes]))
    octets = data.draw(st.sampled_from([octets, octets[:-1], octets[: len(head) + 5], octets[::-1], octets + b"next"]))
    arguments = (octets, start, head, tag_head, tail, tail_at, size)
    assert quick(*arguments) == plain(*arguments)


@given(NUMBERS, SHORT, NUMBERS, SHORT)
def test_the_head_of_a_transfer_is_the_same(frame_bytes: int, middle: bytes, delivery_id: int, flags: bytes) -> None:
    plain, quick = both("transfer_head")
    arguments = (frame_bytes, middle, delivery_id, flags)
    assert result(quick, *arguments) == result(plain, *arguments)


ANYTHING = st.one_of(NUMBERS, SHORT, st.none(), st.text(max_size=3), st.floats(), st.just([]), st.builds(bytearray))


@pytest.mark.parametrize("module", CLEAR_FORMS, ids=lambda module: module.__name__)
@given(st.lists(ANYTHING, max_size=17))
def test_arguments_of_wrong_types_or_number_are_refused(module: ModuleType, arguments: list[object]) -> None:
    functions = vars(built(module))
    for name in (name for name in functions if not name.startswith("_")):
        clear = getattr(module, f"plain_{name}")
        found = result(functions[name], *arguments)
        if found != "refused":
            assert found == result(clear, *arguments)
