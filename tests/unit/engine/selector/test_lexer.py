"""Words of selectors: places, limits and what is said about what is none."""

from __future__ import annotations

import pytest

from engine.selector.lexer import END, IDENTIFIER, LENGTH_MAX, NUMBER, STRING, tokens
from engine.values.errors import InvalidSelector


def test_words_keep_their_place_and_their_text() -> None:
    assert [tuple(token) for token in tokens(" age>=0x1F AND x='it''s'")] == [
        (IDENTIFIER, "age", 2, "age"),
        (">=", ">=", 5, ">="),
        (NUMBER, 31, 7, "0x1F"),
        ("AND", "AND", 12, "AND"),
        (IDENTIFIER, "x", 16, "x"),
        ("=", "=", 17, "="),
        (STRING, "it's", 18, "'it''s'"),
        (END, END, 25, ""),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("0L", 0),
        ("0_17", 15),
        ("0b1111_0000", 240),
        ("0x7fff_ffff_ffff_ffffL", 2**63 - 1),
        ("0x8000000000000000", -(2**63)),
        ("01777777777777777777777", -1),
        ("9223372036854775808", 2**63),  # for the parser: only behind a minus
        ("1e400", None),
        ("0e999", 0.0),
        ("0.0f", 0.0),
        ("1e-45f", 1.401298464324817e-45),
        ("0x.8p0", 0.5),
        ("0x1fp0f", 31.0),
        ("1_0.5_0e1_0", 10.5e10),
        ("08.5", 8.5),
        ("9" * 5000, None),
    ],
)
def test_numbers_are_read_as_java_writes_them(text: str, value: int | float | None) -> None:
    if value is None:
        with pytest.raises(InvalidSelector, match="character 1: found"):
            tokens(text)
        return
    token = tokens(text)[0]
    assert (token.kind, token.value, type(token.value)) == (NUMBER, value, type(value))


def test_identifiers_follow_java_beyond_ascii() -> None:
    # Letter, combining mark, ignorable control, letter number, connector; a keyword only in ASCII.
    name = "e\u0301\x7f\u2160\u203f1"
    assert [(token.kind, token.text) for token in tokens(f"{name} \u0131n")[:2]] == [
        (IDENTIFIER, name),
        (IDENTIFIER, "\u0131n"),
    ]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a = 'open''", "character 5: found a string without its closing quote"),
        ("a ? 1", "character 3: found '?'; allowed here: names, numbers, strings in single quotes"),
        ("a = 12ab.c", "character 5: found '12ab'"),
        ("a = 1.2.3", "character 5: found '1.2.3'"),
        ("a = 1 --b", "character 7: found '--', a comment in SQL"),
        ("a = 08", "character 5: found 08; allowed here: digits 0 to 7"),
    ],
)
def test_what_is_no_word_is_named_with_its_place(text: str, seen: str) -> None:
    with pytest.raises(InvalidSelector) as raised:
        tokens(text)
    assert f"selector, {seen}" in str(raised.value)
    assert raised.value.condition == "invalid-selector"


def test_the_length_is_bounded() -> None:
    assert len(tokens(" " * LENGTH_MAX)) == 1
    with pytest.raises(InvalidSelector, match=f"{LENGTH_MAX + 1} characters; allowed are {LENGTH_MAX}"):
        tokens(" " * (LENGTH_MAX + 1))
