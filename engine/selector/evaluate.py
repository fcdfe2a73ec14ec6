"""Selectors: compiled once to closures, evaluated for each message.

A condition is True, False or None, which is SQL's unknown; a message matches when it is True.
Source: Jakarta Messaging 3.1, sections 3.8.1.1 and 3.8.1.2; the conversion of strings is ActiveMQ's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, assert_never
from weakref import WeakValueDictionary

from engine.selector.arithmetic import compute, negated, number_of
from engine.selector.like import LikePattern
from engine.selector.parser import parse
from engine.selector.properties import Properties, Value
from engine.selector.syntax import (
    And,
    Arithmetic,
    Between,
    BodyTest,
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
)
from engine.selector.xpath.parser import XPath
from engine.selector.xpath.values import XPATH_STEPS_MAX, Budget
from engine.values.errors import DATA_FAULTS

_Condition = Callable[[Properties], bool | None]
_Operand = Callable[[Properties], Value]
_Test = Callable[[Any, Any], bool]

_TESTS: Final[dict[str, _Test]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
BODY_COST: Final = 64  # cost of reading the body for an expression, in comparisons of a property
XPATH_STEPS_A_COMPARISON: Final = 2
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Selector:
    """text: as the consumer wrote it.  expression: parsed; ``syntax.write`` gives its canonical text.

    cost: rough cost in comparisons of a property, without the walks of its XPaths.
    """

    __slots__ = ("text", "expression", "cost", "_condition", "_budget", "__weakref__")

    def __init__(self, text: str, expression: Node) -> None:
        self.text = text
        self.expression = expression
        self.cost = _cost(expression)
        self._budget = Budget()
        self._condition = _condition(expression, self._budget)

    def matches(self, properties: Properties) -> bool:
        """Say whether it is true for a message; for an unreadable message it never is."""
        self._budget.left = XPATH_STEPS_MAX
        try:
            return self._condition(properties) is True
        except DATA_FAULTS:
            return False

    def last_cost(self) -> int:
        """Return about how many comparisons its last evaluation took."""
        return self.cost + self._budget.taken() // XPATH_STEPS_A_COMPARISON


def compile_selector(text: str) -> Selector:
    """Return the selector, the same one for the same text; an empty one matches everything.

    A subscription to many queues has a consumer at each, and a long selector takes milliseconds to read.
    Raises: InvalidSelector.
    """
    selector = _IN_USE.get(text)
    if selector is None:
        selector = _IN_USE[text] = Selector(text, parse(text))
    return selector


_IN_USE: Final[WeakValueDictionary[str, Selector]] = WeakValueDictionary()


def selector_of(text: str) -> Selector | None:
    """Return None for a blank text, which selects everything.  Raises: InvalidSelector."""
    return compile_selector(text) if text.strip() else None


def _condition(node: Node, budget: Budget) -> _Condition:
    match node:
        case And(operands):
            return _junction([_condition(operand, budget) for operand in operands], False)
        case Or(operands):
            return _junction([_condition(operand, budget) for operand in operands], True)
        case Not(operand):
            return _negation(_condition(operand, budget))
        case Comparison(left, symbol, right):
            return _comparison(left, symbol, right, budget)
        case Between(operand, low, high, False):
            return _junction([_comparison(operand, ">=", low, budget), _comparison(operand, "<=", high, budget)], False)
        case Between(operand, low, high, True):
            return _junction([_comparison(operand, "<", low, budget), _comparison(operand, ">", high, budget)], True)
        case In(name, values, is_negated):
            return _string_test(name, frozenset(values).__contains__, is_negated)
        case Like(name, pattern, escape, is_negated):
            return _string_test(name, LikePattern(pattern, escape).matches, is_negated)
        case IsNull(name, is_negated):
            return lambda properties: (properties.get(name) is None) is not is_negated
        case BodyTest(text):
            xpath = XPath(text)
            return lambda properties: xpath.matches(properties.document(), budget)
        case Identifier() | Literal():
            return _comparison(node, "=", Literal(True), budget)
    raise AssertionError(f"the parser accepted {node} as a condition")


def _junction(conditions: list[_Condition], decisive: bool) -> _Condition:
    """Return AND, which False decides, or OR, which True decides."""

    def junction(properties: Properties) -> bool | None:
        result: bool | None = not decisive
        for condition in conditions:
            value = condition(properties)
            if value is decisive:
                return value
            if value is None:
                result = None
        return result

    return junction


def _negation(condition: _Condition) -> _Condition:
    def negation(properties: Properties) -> bool | None:
        value = condition(properties)
        return None if value is None else not value

    return negation


def _string_test(name: str, test: Callable[[str], bool], is_negated: bool) -> _Condition:
    """A test that is false for anything but strings; with NOT it is the opposite, as the specification says."""

    def string_test(properties: Properties) -> bool | None:
        value = properties.get(name)
        if value is None:
            return None
        return (isinstance(value, str) and test(value)) is not is_negated

    return string_test


def _comparison(left: Node, symbol: str, right: Node, budget: Budget) -> _Condition:
    if isinstance(left, Literal) and isinstance(right, Identifier):
        return _comparison(right, _MIRRORED[symbol], left, budget)
    test = _TESTS[symbol]
    if isinstance(left, Identifier) and isinstance(right, Literal):
        if isinstance(right.value, str):
            return _comparison_with_string(left.name, test, right.value)
        if not isinstance(right.value, bool):
            return _comparison_with_number(left.name, test, right.value)
    left_operand = _operand(left, budget)
    right_operand = _operand(right, budget)
    return lambda properties: _compare(
        test, left_operand(properties), right_operand(properties), properties.converts_strings
    )


def _comparison_with_string(name: str, test: _Test, literal: str) -> _Condition:
    """The common ``colour = 'red'``, as in ``_compare``."""

    def comparison_with_string(properties: Properties) -> bool | None:
        value = properties.get(name)
        if type(value) is str:
            return test(value, literal)
        return _compare(test, value, literal, properties.converts_strings)

    return comparison_with_string


def _comparison_with_number(name: str, test: _Test, literal: int | float) -> _Condition:
    """The common ``size > 3``, as in ``_compare``."""
    like_kind = type(literal)
    promoted = float(literal)

    def comparison_with_number(properties: Properties) -> bool | None:
        value = properties.get(name)
        if type(value) is str and properties.converts_strings:
            value = number_of(value)
            if value is None:
                return False
        if type(value) is like_kind:
            return test(value, literal)
        if type(value) is int or type(value) is float:
            return test(float(value), promoted)
        return None if value is None else False

    return comparison_with_number


def _compare(test: _Test, left: Value, right: Value, converts_strings: bool) -> bool | None:
    """Compare like with like; anything else is false, for <> too (section 3.8.1.1)."""
    if left is None or right is None:
        return None
    is_equality = test is operator.eq or test is operator.ne
    if converts_strings:
        # Two strings are compared as strings if possible.  ActiveMQ orders them by their characters, which the
        # specification does not allow, and which would put 10 before 9.
        if type(left) is str and not (is_equality and type(right) is str):
            left = _converted(left, type(right))
        if type(right) is str and not (is_equality and type(left) is str):
            right = _converted(right, type(left))
    if type(left) is type(right):
        if is_equality or type(left) is int or type(left) is float:
            return test(left, right)
        return False
    if isinstance(left, (bool, str)) or isinstance(right, (bool, str)):
        return False
    return test(float(left), float(right))


def _converted(text: str, kind: type) -> bool | int | float | str:
    """Convert a string for a comparison with a value of ``kind``; if that is impossible, return it unchanged."""
    if kind is bool:
        return text.lower() == "true"
    value = number_of(text)
    return text if value is None else value


def _operand(node: Node, budget: Budget) -> _Operand:
    match node:
        case Identifier(name):
            return lambda properties: properties.get(name)
        case Literal(value):
            return lambda properties: value
        case Signed(sign, operand):
            return _sign(sign, _operand(operand, budget))
        case Arithmetic(first, rest):
            return _arithmetic(
                _operand(first, budget), [(symbol, _operand(operand, budget)) for symbol, operand in rest]
            )
        case Comparison() | Between() | In() | Like() | IsNull() | BodyTest() | Not() | And() | Or():
            return _condition(node, budget)
    assert_never(node)


def _sign(sign: str, operand: _Operand) -> _Operand:
    def signed(properties: Properties) -> Value:
        value = _number(operand(properties), properties.converts_strings)
        if value is None or sign == "+":
            return value
        return -value if isinstance(value, float) else negated(value)

    return signed


def _arithmetic(first: _Operand, rest: list[tuple[str, _Operand]]) -> _Operand:
    def arithmetic(properties: Properties) -> Value:
        converts_strings = properties.converts_strings
        result = _number(first(properties), converts_strings)
        for symbol, operand in rest:
            value = _number(operand(properties), converts_strings)
            if result is None or value is None:
                return None
            result = compute(symbol, result, value)
        return result

    return arithmetic


def _number(value: Value, converts_strings: bool) -> int | float | None:
    """Arithmetic with a value that is not a number is unknown, like arithmetic with NULL."""
    if isinstance(value, str):
        return number_of(value) if converts_strings else None
    return None if isinstance(value, bool) else value


def _cost(node: Node) -> int:
    """Return about how many comparisons of a property ``node`` costs."""
    match node:
        case And(operands) | Or(operands):
            return sum(_cost(operand) for operand in operands)
        case Not(operand):
            return _cost(operand)
        case BodyTest():
            return BODY_COST
    return 1
