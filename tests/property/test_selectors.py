"""Laws of selectors: closures give what a naive reading of the specification gives, texts survive being rewritten."""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from engine.selector.evaluate import Selector, compile_selector
from engine.selector.parser import parse
from engine.selector.properties import Properties, Value
from engine.selector.syntax import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Signed,
    write,
)
from engine.values.errors import InvalidSelector
from engine.values.message import annotation
from protocols.stomp.codec.escapes import read_block
from tests.support.engine.selector_properties import (
    ConvertedProperties,
    TypedProperties,
    stomp_message,
    stomp_properties,
)

# Few names and values, so that they meet.
NAMES = st.sampled_from(["a", "b", "flag", "größe", "JMSPriority", "$x_1"])
STRINGS = st.sampled_from(["", "a", "b", "ab", "a%b", "a_b", "it's", "3", "-2.5", "1e3", "true", "False", "٣", "\n"])
INTEGERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)]), st.integers(-(2**63), 2**63 - 1)
)
FLOATS = st.one_of(st.sampled_from([0.0, -2.5, 3.0, 2.0**53]), st.floats(allow_nan=False, allow_infinity=False))
SCALARS = st.one_of(STRINGS, INTEGERS, FLOATS, st.booleans())
PATTERNS = st.text("ab%_.'", max_size=6)

NUMBERS: st.SearchStrategy[Node] = st.recursive(
    st.one_of(NAMES.map(Identifier), INTEGERS.map(Literal), FLOATS.map(Literal)),
    lambda inner: st.one_of(
        # A sign before a literal is a part of it.
        st.builds(Signed, st.sampled_from("+-"), inner.filter(lambda node: not isinstance(node, Literal))),
        *(
            st.builds(
                Arithmetic,
                inner,
                st.lists(st.tuples(st.sampled_from(operators), inner), min_size=1, max_size=2).map(tuple),
            )
            for operators in ("+-", "*/%")
        ),
    ),
    max_leaves=4,
)
OPERANDS = st.one_of(NUMBERS, SCALARS.map(Literal))
PREDICATES: st.SearchStrategy[Node] = st.one_of(
    NAMES.map(Identifier),
    st.booleans().map(Literal),
    st.builds(Comparison, OPERANDS, st.sampled_from(["=", "<>"]), OPERANDS),
    st.builds(Comparison, NUMBERS, st.sampled_from(["<", "<=", ">", ">="]), NUMBERS),
    st.builds(Between, NUMBERS, NUMBERS, NUMBERS, st.booleans()),
    st.builds(In, NAMES, st.lists(STRINGS, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(Like, NAMES, PATTERNS, st.none(), st.booleans()),
    st.builds(
        Like, NAMES, PATTERNS.map(lambda text: text.replace(".", "!%").replace("'", "!!")), st.just("!"), st.booleans()
    ),
    st.builds(IsNull, NAMES, st.booleans()),
)
CONDITIONS: st.SearchStrategy[Node] = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda operands: And(tuple(operands))),
        st.lists(inner, min_size=2, max_size=3).map(lambda operands: Or(tuple(operands))),
        st.builds(Comparison, inner, st.sampled_from(["=", "<>"]), inner),
    ),
    max_leaves=6,
)
VALUES = st.dictionaries(NAMES, st.one_of(SCALARS, st.none()))
PROPERTIES: st.SearchStrategy[Properties] = st.one_of(VALUES.map(TypedProperties), VALUES.map(ConvertedProperties))


@given(CONDITIONS, PROPERTIES)
def test_closures_agree_with_the_reference(node: Node, properties: Properties) -> None:
    expected = reference(node, properties)
    assert compile_selector(write(node)).matches(properties) is (expected is True)
    assert Selector("", Not(node)).matches(properties) is (expected is False)


@given(CONDITIONS)
def test_what_is_written_reads_as_the_same(node: Node) -> None:
    assert repr(parse(write(node))) == repr(node)


WORDS = (
    "a b flag 1 2.5 017 0xFF 1e3 5L 'x' 'it''s' '%' '' TRUE null NOT AND OR BETWEEN LIKE ESCAPE IN IS NULL"
    " = <> < >= + - * / % ( ) ,"
)


@given(st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join) | st.text(max_size=30))
@example("a = 1 AND (b = 2 AND flag)")
@example("- -a = (1 + 2) * 3")
@example("NOT a LIKE '%' ESCAPE ''''")
@example("\u0131N = 1")
def test_any_text_is_refused_or_survives_being_rewritten(text: str) -> None:
    try:
        node = parse(text)
    except InvalidSelector:
        return
    assert repr(parse(write(node))) == repr(node)
    assert write(parse(write(node))) == write(node)


@given(CONDITIONS, CONDITIONS, PROPERTIES)
def test_de_morgan_holds_with_three_values(left: Node, right: Node, properties: Properties) -> None:
    assert truth(Not(And((left, right))), properties) is truth(Or((Not(left), Not(right))), properties)
    assert truth(Not(Or((left, right))), properties) is truth(And((Not(left), Not(right))), properties)


@given(st.text("ab%_", max_size=8), st.text("ab", max_size=12))
def test_like_matches_what_the_definition_matches(pattern: str, value: str) -> None:
    selector = Selector("", Like("a", pattern, None, False))
    assert selector.matches(TypedProperties({"a": value})) is like(pattern, None, value)


HEADER_TEXT = st.text(st.one_of(st.sampled_from("ab:\\\n\r n"), st.characters(exclude_categories=["Cs"])), max_size=8)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "ab", "b", "größe"]) | HEADER_TEXT, HEADER_TEXT), max_size=6), st.data()
)
def test_a_stomp_header_is_found_as_if_the_block_were_parsed(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    split = data.draw(st.integers(0, len(pairs)))
    lines = [annotation(name, value) for name, value in pairs]
    message = stomp_message(b"".join(lines[split:]), annotations=b"".join(lines[:split]))
    properties = stomp_properties(message)
    parsed = read_block(message.annotations + message.headers)
    for name in ("a", "ab", "b", "größe", "c"):
        expected = next((value for header, value in parsed if header == name), None)
        assert properties.get(name) == expected
        assert properties.get(name) == expected  # remembered


def truth(node: Node, properties: Properties) -> bool | None:
    if Selector("", node).matches(properties):
        return True
    return False if Selector("", Not(node)).matches(properties) else None


# The reference: section 3.8.1 and the rules of conversion, spelled out without any thought of speed.

AND = {
    (True, True): True,
    (True, False): False,
    (True, None): None,
    (False, True): False,
    (False, False): False,
    (False, None): False,
    (None, True): None,
    (None, False): False,
    (None, None): None,
}
NOT = {True: False, False: True, None: None}


def reference(node: Node, properties: Properties) -> bool | None:
    match node:
        case And(operands):
            result: bool | None = True
            for operand in operands:
                result = AND[result, reference(operand, properties)]
            return result
        case Or(operands):
            return NOT[reference(And(tuple(Not(operand) for operand in operands)), properties)]
        case Not(operand):
            return NOT[reference(operand, properties)]
        case Comparison(left, operator, right):
            return compared(operator, value_of(left, properties), value_of(right, properties), properties)
        case Between(operand, low, high, False):
            return reference(And((Comparison(operand, ">=", low), Comparison(operand, "<=", high))), properties)
        case Between(operand, low, high, True):
            return reference(Or((Comparison(operand, "<", low), Comparison(operand, ">", high))), properties)
        case In(name, values, False):
            value = properties.get(name)
            return None if value is None else any(type(value) is str and value == each for each in values)
        case Like(name, pattern, escape, False):
            value = properties.get(name)
            return None if value is None else isinstance(value, str) and like(pattern, escape, value)
        case In(name, values, True):
            return NOT[reference(In(name, values, False), properties)]
        case Like(name, pattern, escape, True):
            return NOT[reference(Like(name, pattern, escape, False), properties)]
        case IsNull(name, is_negated):
            return (properties.get(name) is None) != is_negated
        case _:
            return compared("=", value_of(node, properties), True, properties)


def value_of(node: Node, properties: Properties) -> Value:
    match node:
        case Literal(value):
            return value
        case Identifier(name):
            return properties.get(name)
        case Signed(sign, operand):
            # Not 0 - operand, which would lose the sign of zero.
            return computed("*", -1 if sign == "-" else 1, value_of(operand, properties), properties)
        case Arithmetic(first, rest):
            total = value_of(first, properties)
            for operator, operand in rest:
                total = computed(operator, total, value_of(operand, properties), properties)
            return total
        case _:
            return reference(node, properties)


def number(value: Value, properties: Properties) -> int | float | None:
    if isinstance(value, str) and properties.converts_strings:
        return number_in(value)
    return value if type(value) in (int, float) else None  # type: ignore[return-value]


def number_in(text: str) -> int | float | None:
    if set(text) - set("0123456789+-.eE"):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    try:
        return int(text) if -(2**63) <= int(text) < 2**63 else value
    except ValueError:
        return value


def computed(operator: str, left: Value, right: Value, properties: Properties) -> Value:
    a, b = number(left, properties), number(right, properties)
    if a is None or b is None:
        return None
    if isinstance(a, int) and isinstance(b, int):
        if operator in "/%" and b == 0:
            return None
        quotient = math.trunc(Fraction(a, b)) if operator in "/%" else 0
        result = {"+": a + b, "-": a - b, "*": a * b, "/": quotient, "%": a - b * quotient}[operator]
        return ctypes.c_int64(result).value
    a, b = float(a), float(b)
    if operator == "%":
        return math.nan if math.isinf(a) or b == 0 else math.fmod(a, b)
    if operator == "/" and b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.inf * math.copysign(1, a) * math.copysign(1, b)
    return a / b if operator == "/" else {"+": a + b, "-": a - b, "*": a * b}[operator]


def compared(operator: str, left: Value, right: Value, properties: Properties) -> bool | None:
    if left is None or right is None:
        return None
    is_equality = operator in ("=", "<>")
    kinds = {type(left), type(right)}
    if properties.converts_strings and str in kinds and not (is_equality and kinds == {str}):
        if bool in kinds:
            left, right = (each.lower() == "true" if isinstance(each, str) else each for each in (left, right))
        else:
            left, right = number(left, properties), number(right, properties)
            if left is None or right is None:
                return False
        kinds = {type(left), type(right)}
    if kinds == {int, float}:
        left, right = float(left), float(right)
    elif len(kinds) == 2 or (kinds in ({str}, {bool}) and not is_equality):
        return False
    if is_equality:
        return (left == right) == (operator == "=")
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]  # type: ignore[operator]


def like(pattern: str, escape: str | None, value: str) -> bool:
    @cache
    def matches(p: int, v: int) -> bool:
        if p == len(pattern):
            return v == len(value)
        if pattern[p] == escape:
            return v < len(value) and value[v] == pattern[p + 1] and matches(p + 2, v + 1)
        if pattern[p] == "%":
            return matches(p + 1, v) or (v < len(value) and matches(p, v + 1))
        return v < len(value) and pattern[p] in ("_", value[v]) and matches(p + 1, v + 1)

    return matches(0, 0)
