"""The nodes of a parsed selector, and how each is written back.

    or        and OR and ...
    and       not AND not ...
    not       NOT not | predicate
    predicate sum [= <> < <= > >= sum | IS [NOT] NULL | [NOT] BETWEEN sum AND sum | [NOT] IN (...) | [NOT] LIKE ...]
    sum       product + - product ...
    product   signed * / % signed ...
    signed    + - signed | primary
    primary   literal | identifier | XPATH string | ( or )

Chains are kept flat, so the depth of a tree is bounded by the signs, NOTs and parentheses of its text.
Source: Jakarta Messaging 3.1, section 3.8.1.1; ``%`` is ActiveMQ's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never


@dataclass(frozen=True, slots=True)
class Literal:
    """A number below zero is a literal, too: a sign is applied to a literal when it is read."""

    value: bool | int | float | str


@dataclass(frozen=True, slots=True)
class Identifier:
    name: str


@dataclass(frozen=True, slots=True)
class Signed:
    sign: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """From left to right; the operators of one chain are of one precedence: + and -, or *, / and %."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Node
    operator: str
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    operand: Node
    low: Node
    high: Node
    is_negated: bool


@dataclass(frozen=True, slots=True)
class In:
    name: str
    values: tuple[str, ...]
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Like:
    name: str
    pattern: str
    escape: str | None
    is_negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    name: str
    is_negated: bool


@dataclass(frozen=True, slots=True)
class BodyTest:
    """A condition on the body, ActiveMQ's ``XPATH '...'``."""

    xpath: str


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Node, ...]


Node = (
    Literal | Identifier | Signed | Arithmetic | Comparison | Between | In | Like | IsNull | BodyTest | Not | And | Or
)

# How tightly a node binds; a child that binds less tightly than its place requires is put in parentheses.
_OR: Final = 1
_AND: Final = 2
_NOT: Final = 3
_PREDICATE: Final = 4
_SUM: Final = 5
_PRODUCT: Final = 6
_SIGNED: Final = 7
_PRIMARY: Final = 8


def write(node: Node) -> str:
    """Return the text of a selector, with no more parentheses than it needs; parsing it gives ``node`` again."""
    match node:
        case Literal():
            return _write_literal(node.value)
        case Identifier():
            return node.name
        case Signed():
            operand = _child(node.operand, _SIGNED)
            # Two minus signs in a row would be a comment in SQL.
            return f"{node.sign} {operand}" if operand.startswith(("-", "+")) else node.sign + operand
        case Arithmetic():
            inner = _tightness(node) + 1
            links = [f" {operator} {_child(operand, inner)}" for operator, operand in node.rest]
            return _child(node.first, inner) + "".join(links)
        case Comparison():
            return f"{_child(node.left, _SUM)} {node.operator} {_child(node.right, _SUM)}"
        case Between():
            bounds = f"{_child(node.low, _SUM)} AND {_child(node.high, _SUM)}"
            return f"{_child(node.operand, _SUM)} {_not(node.is_negated)}BETWEEN {bounds}"
        case In():
            return f"{node.name} {_not(node.is_negated)}IN ({', '.join(map(_quote, node.values))})"
        case Like():
            escape = "" if node.escape is None else f" ESCAPE {_quote(node.escape)}"
            return f"{node.name} {_not(node.is_negated)}LIKE {_quote(node.pattern)}{escape}"
        case IsNull():
            return f"{node.name} IS {_not(node.is_negated)}NULL"
        case BodyTest():
            return f"XPATH {_quote(node.xpath)}"
        case Not():
            return f"NOT {_child(node.operand, _NOT)}"
        case And():
            return " AND ".join([_child(operand, _NOT) for operand in node.operands])
        case Or():
            return " OR ".join([_child(operand, _AND) for operand in node.operands])
    assert_never(node)


def _child(node: Node, least: int) -> str:
    text = write(node)
    return text if _tightness(node) >= least else f"({text})"


def _tightness(node: Node) -> int:
    match node:
        case Or():
            return _OR
        case And():
            return _AND
        case Not():
            return _NOT
        case Comparison() | Between() | In() | Like() | IsNull():
            return _PREDICATE
        case Arithmetic():
            return _SUM if node.rest[0][0] in ("+", "-") else _PRODUCT
        case Signed():
            return _SIGNED
        case Literal() | Identifier() | BodyTest():
            return _PRIMARY
    assert_never(node)


def _write_literal(value: bool | int | float | str) -> str:
    if isinstance(value, str):
        return _quote(value)
    return str(value).upper() if isinstance(value, bool) else repr(value)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _not(is_negated: bool) -> str:
    return "NOT " if is_negated else ""
