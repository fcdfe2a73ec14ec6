"""Parses the words of a selector to its expression (grammar: engine.selector.syntax) and checks evident types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.selector.arithmetic import LONG_MAX, LONG_MIN, negated
from engine.selector.lexer import END, IDENTIFIER, NUMBER, STRING, Token, invalid, tokens
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
from engine.values.errors import InvalidSelector

NESTING_MAX: Final = 50  # parentheses, NOTs and signs inside each other
LIKE_PATTERN_MAX: Final = 1_024  # characters

# Header fields that a selector may name: those of section 3.8.1.1, and those of ActiveMQ's additions that are
# numbers, booleans or strings.  A misspelled one would silently never match.
JMS_HEADERS: Final = (
    "JMSCorrelationID",
    "JMSDeliveryMode",
    "JMSExpiration",
    "JMSMessageID",
    "JMSPriority",
    "JMSRedelivered",
    "JMSReplyTo",
    "JMSTimestamp",
    "JMSType",
)

_EQUALITY: Final = ("=", "<>")
_ORDER: Final = ("<", "<=", ">", ">=")
_A_VALUE: Final = "a name, a number, a string, TRUE, FALSE, NOT, a sign, ("
_A_CONDITION: Final = "a condition: a comparison, a boolean property, TRUE or FALSE"
_A_NUMBER: Final = "a number or a property; strings and booleans have only = and <>, and no arithmetic"
_AFTER_OPERAND: Final = "an operator, BETWEEN, IN, LIKE, IS, AND, OR"


def parse(text: str) -> Node:
    """Return the expression; an empty selector is TRUE.  Raises: InvalidSelector."""
    words = tokens(text)
    return Literal(True) if words[0].kind == END else _Parser(words).selector()


class _Parser:
    """One method per line of the grammar; each starts at the current token and stops at the first it does not use."""

    __slots__ = ("_words", "_next", "_token", "_nesting")

    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._next = 1
        self._token = words[0]
        self._nesting = 0

    def selector(self) -> Node:
        start = self._token
        node = self._or()
        if self._token.kind != END:
            raise self._unexpected(f"{_AFTER_OPERAND} or the end")
        return _condition(node, start)

    def _or(self) -> Node:
        operands = self._chain("OR", self._and)
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _and(self) -> Node:
        operands = self._chain("AND", self._not)
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _chain(self, operator: str, read: Callable[[], Node]) -> list[Node]:
        """Read conditions joined by ``operator``; without it, read a single expression of any kind."""
        start = self._token
        operands = [read()]
        while self._token.kind == operator:
            _condition(operands[-1], start)
            self._advance()
            start = self._token
            operands.append(_condition(read(), start))
        return operands

    def _not(self) -> Node:
        if self._token.kind != "NOT":
            return self._predicate()
        self._enter()
        start = self._token
        operand = _condition(self._not(), start)
        self._nesting -= 1
        return Not(operand)

    def _predicate(self) -> Node:
        start = self._token
        left = self._sum()
        operator = self._token.kind
        if operator in _EQUALITY:
            self._advance()
            return Comparison(left, operator, self._sum())
        if operator in _ORDER:
            _number(left, start)
            self._advance()
            return Comparison(left, operator, self._number_sum())
        if operator == "IS":
            self._advance()
            is_negated = self._take("NOT")
            self._expect("NULL", "NULL" if is_negated else "NULL or NOT NULL")
            return IsNull(_name(left, start), is_negated)
        is_negated = self._take("NOT")
        if self._take("BETWEEN"):
            _number(left, start)
            low = self._number_sum()
            self._expect("AND", "AND and the upper bound")
            return Between(left, low, self._number_sum(), is_negated)
        if self._take("IN"):
            return In(_name(left, start), self._strings(), is_negated)
        if self._take("LIKE"):
            return self._like(_name(left, start), is_negated)
        if is_negated:
            raise self._unexpected("BETWEEN, IN or LIKE")
        return left

    def _strings(self) -> tuple[str, ...]:
        self._expect("(", "( and strings")
        values = [self._string("a string")]
        while self._take(","):
            values.append(self._string("a string"))
        self._expect(")", ", or )")
        return tuple(values)

    def _like(self, name: str, is_negated: bool) -> Like:
        start = self._token
        pattern = self._string("a string with % for any characters and _ for one")
        if len(pattern) > LIKE_PATTERN_MAX:
            raise invalid(start.position, f"a pattern of {len(pattern)} characters", f"{LIKE_PATTERN_MAX} of them")
        if not self._take("ESCAPE"):
            return Like(name, pattern, None, is_negated)
        escape_start = self._token
        escape = self._string("a string of one character")
        if len(escape) != 1:
            raise invalid(escape_start.position, escape_start.text, "a string of one character")
        # Brokers disagree about an escape before anything else, so nobody can rely on it.
        escaped = pattern.replace(escape * 2, "").split(escape)[1:]
        if not all(part.startswith(("%", "_")) for part in escaped):
            raise invalid(start.position, start.text, f"after the escape {escape} only %, _ or {escape}")
        return Like(name, pattern, escape, is_negated)

    def _sum(self) -> Node:
        return self._arithmetic(("+", "-"), self._product)

    def _number_sum(self) -> Node:
        start = self._token
        return _number(self._sum(), start)

    def _product(self) -> Node:
        return self._arithmetic(("*", "/", "%"), self._signed)

    def _arithmetic(self, operators: tuple[str, ...], read: Callable[[], Node]) -> Node:
        start = self._token
        first = read()
        rest: list[tuple[str, Node]] = []
        while self._token.kind in operators:
            operator = self._token.kind
            if not rest:
                _number(first, start)
            self._advance()
            start = self._token
            rest.append((operator, _number(read(), start)))
        return Arithmetic(first, tuple(rest)) if rest else first

    def _signed(self) -> Node:
        sign = self._token.kind
        if sign not in ("+", "-"):
            return self._primary()
        self._enter()
        start = self._token
        if sign == "-" and start.value == LONG_MAX + 1 and start.kind == NUMBER:
            self._advance()  # Java, too, allows 9223372036854775808 only right behind a minus
            operand: Node = Literal(LONG_MIN)
        else:
            operand = _number(self._signed(), start)
        self._nesting -= 1
        if not isinstance(operand, Literal):
            return Signed(sign, operand)
        value = operand.value
        assert not isinstance(value, (bool, str))
        return Literal(value if sign == "+" else -value if isinstance(value, float) else negated(value))

    def _primary(self) -> Node:
        token = self._token
        if token.kind == "(":
            self._enter()
            node = self._or()
            self._expect(")", f"{_AFTER_OPERAND} or )")
            self._nesting -= 1
            return node
        if token.kind == IDENTIFIER:
            if token.text.upper() == "XPATH" and self._words[self._next].kind == STRING:
                return self._body_test()
            _check_name(token)
            node = Identifier(token.text)
        elif token.kind in (NUMBER, STRING):
            if token.value == LONG_MAX + 1 and isinstance(token.value, int):
                raise invalid(token.position, token.text, f"whole numbers up to {LONG_MAX}")
            node = Literal(token.value)
        elif token.kind in ("TRUE", "FALSE"):
            node = Literal(token.kind == "TRUE")
        else:
            allowed = "IS NULL and IS NOT NULL behind a name" if token.kind == "NULL" else _A_VALUE
            raise self._unexpected(allowed)
        self._advance()
        return node

    def _body_test(self) -> Node:
        """XPATH is not a keyword: alone it is a name."""
        self._advance()
        text = str(self._token.value)
        XPath(text)  # an invalid one is refused now, instead of being false for each message
        self._advance()
        return BodyTest(text)

    def _advance(self) -> None:
        self._token = self._words[self._next]
        self._next += 1

    def _take(self, kind: str) -> bool:
        if self._token.kind != kind:
            return False
        self._advance()
        return True

    def _expect(self, kind: str, allowed: str) -> None:
        if not self._take(kind):
            raise self._unexpected(allowed)

    def _string(self, allowed: str) -> str:
        token = self._token
        if token.kind != STRING:
            raise self._unexpected(allowed)
        self._advance()
        return str(token.value)

    def _enter(self) -> None:
        """Step over the sign, NOT or parenthesis that starts a level."""
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise invalid(
                self._token.position,
                f"level {self._nesting} of parentheses, NOTs and signs inside each other",
                f"{NESTING_MAX} levels",
            )
        self._advance()

    def _unexpected(self, allowed: str) -> InvalidSelector:
        token = self._token
        return invalid(token.position, "the end" if token.kind == END else repr(token.text), allowed)


def _condition(node: Node, start: Token) -> Node:
    match node:
        case Signed() | Arithmetic():
            raise invalid(start.position, "a number", _A_CONDITION)
        case Literal(value) if not isinstance(value, bool):
            raise invalid(start.position, start.text, _A_CONDITION)
    return node


def _number(node: Node, start: Token) -> Node:
    match node:
        case Identifier() | Signed() | Arithmetic():
            return node
        case Literal(value) if not isinstance(value, (bool, str)):
            return node
    raise invalid(start.position, start.text, _A_NUMBER)


def _name(node: Node, start: Token) -> str:
    if not isinstance(node, Identifier):
        raise invalid(start.position, start.text, "a name, before IS NULL, IN and LIKE")
    return node.name


def _check_name(token: Token) -> None:
    name = token.text
    if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")) and name not in JMS_HEADERS:
        allowed = f"{', '.join(JMS_HEADERS)}, and names that begin with JMSX, JMS_ or anything but JMS"
        raise invalid(token.position, name, allowed)
