"""The words of a selector: keywords, identifiers, numbers as Java writes them, strings, operators."""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from typing import Final, NamedTuple

from engine.selector.arithmetic import LONG_MAX, wrapped
from engine.values.errors import InvalidSelector

LENGTH_MAX: Final = 65_536  # characters of a selector

# Kinds of tokens; a keyword's or an operator's kind is itself, keywords in capitals.
IDENTIFIER: Final = "identifier"
NUMBER: Final = "number"
STRING: Final = "string"
END: Final = "end"

KEYWORDS: Final = frozenset(("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"))

_FLOAT32: Final = struct.Struct(">f")

# Java's Character.isJavaIdentifierStart and isJavaIdentifierPart, by Unicode category.
_START_CATEGORIES: Final = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"))
_PART_CATEGORIES: Final = _START_CATEGORIES | {"Nd", "Mn", "Mc", "Cf"}
_IGNORABLE: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x9f]")

_DIGITS: Final = "[0-9](?:_*[0-9])*"
_HEX: Final = "[0-9a-fA-F](?:_*[0-9a-fA-F])*"
# Java Language Specification, 3.10.1 and 3.10.2.  Possessive: an open string is not a shorter closed one.
_TOKEN: Final = re.compile(
    rf"""
      (?P<space>[ \t\n\f\r]+)
    | (?P<comment>--|/\*)
    | (?P<string>'(?:[^']|'')*+')
    | (?P<hexfloat>0[xX](?:{_HEX}\.?|(?:{_HEX})?\.{_HEX})[pP][+-]?{_DIGITS}[fFdD]?)
    | (?P<hex>0[xX]{_HEX}[lL]?)
    | (?P<binary>0[bB][01](?:_*[01])*[lL]?)
    | (?P<float>(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?[fFdD]?
              | {_DIGITS}(?:[eE][+-]?{_DIGITS}[fFdD]?|[fFdD]))
    | (?P<integer>{_DIGITS}[lL]?)
    | (?P<operator><>|<=|>=|[=<>+\-*/%(),])
    """,
    re.VERBOSE,
)
_ALLOWED: Final = "names, numbers, strings in single quotes, = <> < <= > >= + - * / %, parentheses and commas"


class Token(NamedTuple):
    """position: characters from the beginning, the first is 1.  text: as it was written.

    value: the name of an identifier, the value of a literal, else the kind.
    """

    kind: str
    value: int | float | str
    position: int
    text: str


def invalid(position: int, seen: str, allowed: str) -> InvalidSelector:
    """Return the error with the position, what was found and what is allowed there."""
    return InvalidSelector(f"selector, character {position}: found {seen[:80]}; allowed here: {allowed}")


def tokens(text: str) -> list[Token]:
    """Return the words, the last one of kind END.  Raises: InvalidSelector."""
    if len(text) > LENGTH_MAX:
        raise InvalidSelector(f"selector has {len(text)} characters; allowed are {LENGTH_MAX}")
    found: list[Token] = []
    at = 0
    while at < len(text):
        if _is_identifier_start(text[at]):
            end = _identifier_end(text, at)
            word = text[at:end]
            # isascii: other alphabets have letters whose capital is an ASCII one.
            kind = word.upper() if word.isascii() and word.upper() in KEYWORDS else IDENTIFIER
            found.append(Token(kind, word, at + 1, word))
            at = end
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] == "'":
                raise invalid(at + 1, "a string without its closing quote", "a string ends with ', a quote in it is ''")
            raise invalid(at + 1, repr(text[at]), _ALLOWED)
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_token(kind, match[0], text, at))
        at = match.end()
    found.append(Token(END, END, len(text) + 1, ""))
    return found


def _token(kind: str, word: str, text: str, at: int) -> Token:
    position = at + 1
    if kind == "operator":
        return Token(word, word, position, word)
    if kind == "string":
        return Token(STRING, word[1:-1].replace("''", "'"), position, word)
    if kind == "comment":
        raise invalid(position, f"{word!r}, a comment in SQL", "no comment; of two signs in a row, a space between")
    after = at + len(word)
    if after < len(text) and (text[after] == "." or _is_identifier_part(text[after])):
        raise invalid(position, repr(text[at : _identifier_end(text, after)]), "a number or a name, with space between")
    return Token(NUMBER, _number(kind, word.replace("_", ""), position), position, word)


def _number(kind: str, word: str, position: int) -> int | float:
    if kind in ("float", "hexfloat"):
        return _approximate(kind, word, position)
    digits = word.rstrip("lL")
    base = {"hex": 16, "binary": 2}.get(kind, 8 if digits[0] == "0" and len(digits) > 1 else 10)
    if base == 8 and not set(digits) <= set("01234567"):
        raise invalid(position, word, "digits 0 to 7, as the leading 0 makes it octal")
    # Longer ones are too large in any base, and int() refuses thousands of digits with an error of its own.
    value = int(digits, base) if len(digits) <= 128 else 2**64
    if value > (LONG_MAX + 1 if base == 10 else 2**64 - 1):
        raise invalid(position, word, "a number of 64 bits")
    # In Java only decimal literals have no sign of their own; the parser checks 2**63, which needs a minus.
    return value if base == 10 else wrapped(value)


def _approximate(kind: str, word: str, position: int) -> float:
    # In a hexadecimal literal the exponent is mandatory, so a final f or d is a suffix.
    digits = word.rstrip("fFdD")
    try:
        value = float.fromhex(digits) if kind == "hexfloat" else float(digits)
        if word[-1] in "fF":
            value = float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])
    except OverflowError:
        value = math.inf
    mantissa = re.split("[pP]" if kind == "hexfloat" else "[eE]", digits.lower().removeprefix("0x"))[0]
    if math.isinf(value) or (value == 0 and mantissa.strip("0.")):
        raise invalid(position, word, "a number that a Java double, or with f a float, can hold")
    return value


def _is_identifier_start(character: str) -> bool:
    return unicodedata.category(character) in _START_CATEGORIES


def _is_identifier_part(character: str) -> bool:
    return unicodedata.category(character) in _PART_CATEGORIES or _IGNORABLE.match(character) is not None


def _identifier_end(text: str, at: int) -> int:
    end = at + 1
    while end < len(text) and _is_identifier_part(text[end]):
        end += 1
    return end
